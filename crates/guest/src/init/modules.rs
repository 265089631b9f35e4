// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads kernel modules by name or alias, from the index created by the lab.

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::system::finit_module;
use std::fs::{self, File};

/// The index has one line per name: the name, then the files to load, in order.
const INDEX: &str = "/usr/lib/modules/index";

/// Loads the module that provides `name`, and its dependencies.
pub(crate) fn load(name: &str) -> Result<()> {
    let index = fs::read_to_string(INDEX).context(INDEX)?;
    match files(&index, name) {
        Some(files) => load_files(files),
        None => bail!("no module provides {name}"),
    }
}

/// Loads a module as [`load`] does, unless it is not in the index because it is built in.
pub(crate) fn load_if_there(name: &str) -> Result<()> {
    let index = fs::read_to_string(INDEX).context(INDEX)?;
    files(&index, name).map_or(Ok(()), load_files)
}

/// Returns the files for a name in the index, in which `-` is written as `_`.
fn files<'index>(index: &'index str, name: &str) -> Option<&'index str> {
    let name = name.replace('-', "_");
    index.lines().find_map(|line| {
        let (known, files) = line.split_once(' ')?;
        (known == name).then_some(files)
    })
}

fn load_files(files: &str) -> Result<()> {
    for path in files.split(' ') {
        let file = File::open(path).context(path.to_owned())?;
        match finit_module(&file, c"", 0) {
            // The module may be loaded already, as a dependency of another one.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error).with_context(|| format!("{path} cannot be loaded")),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_whole_and_either_dash() {
        let index = "net_sch_htb /m/a.ko /m/b.ko\nsch /m/c.ko\n";
        assert_eq!(files(index, "net-sch-htb"), Some("/m/a.ko /m/b.ko"));
        assert_eq!(files(index, "sch"), Some("/m/c.ko"));
        assert_eq!(files(index, "net"), None);
        assert_eq!(files(index, ""), None);
    }
}
