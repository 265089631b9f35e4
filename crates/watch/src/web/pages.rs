// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of the page, which are part of the program, compressed by LZMA (`build.rs`).

use lzma_rust2::LzmaReader;
use std::io::{self, Read as _};

/// A file of the page.
pub(crate) struct File {
    pub(crate) path: &'static str,
    /// Its media type.
    pub(crate) kind: &'static str,
    packed: &'static [u8],
}

impl File {
    /// Returns its contents.
    pub(crate) fn content(&self) -> Vec<u8> {
        self.unpacked().expect("what this library packed itself")
    }

    fn unpacked(&self) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        LzmaReader::new_mem_limit(self.packed, u32::MAX, None)?.read_to_end(&mut content)?;
        Ok(content)
    }
}

/// `file!("/watch.js", "watch.js", "text/javascript")` serves `web/watch.js` at this path.
macro_rules! file {
    ($path:literal, $name:literal, $kind:literal) => {
        File {
            path: $path,
            kind: concat!($kind, "; charset=utf-8"),
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
        }
    };
}

pub(crate) static FILES: [File; 7] = [
    file!("/", "index.html", "text/html"),
    file!("/watch.js", "watch.js", "text/javascript"),
    file!("/circuits.js", "circuits.js", "text/javascript"),
    file!("/figures.js", "figures.js", "text/javascript"),
    file!("/series.js", "series.js", "text/javascript"),
    file!("/tables.js", "tables.js", "text/javascript"),
    file!("/watch.css", "watch.css", "text/css"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_unpacked_as_they_were_written() {
        for file in &FILES {
            let name = match file.path {
                "/" => "index.html",
                path => path.trim_start_matches('/'),
            };
            let written = weirgate_testing::read(&format!("web/{name}"));
            assert_eq!(file.content(), written.as_bytes(), "{name}");
        }
    }
}
