// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads programs that implement a qdisc kind, and pins them with their maps.

use crate::error::BpfError;
use crate::maps;
use crate::present::WithPrograms;
use crate::programs::{self, log};
use libbpf_rs::{ErrorExt, Link, MapCore, MapHandle, ObjectBuilder};
use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The pin of the link that registers the kind.
const LINK: &str = "link";

/// The map that libbpf makes for the program's operations.
pub(crate) const OPS: &str = "qdisc";

/// Loads a program and registers its qdisc kind. Returns its maps in the order of `names`.
pub(crate) fn load(
    name: &'static str,
    kind: &str,
    names: &[&str],
) -> Result<(Vec<MapHandle>, Link), BpfError> {
    let object = programs::named(name).ok_or(BpfError::NoProgram(name))?;
    load_object(name, &object, kind, names)
}

/// Maps of another program, which replace those of the same name.
pub(crate) type Shared = Vec<(&'static str, MapHandle)>;

/// Loads an object with shared maps, and registers it as `kind` instead of `own`, the name in
/// the program.
pub(crate) fn load_sharing(
    name: &'static str,
    object: &[u8],
    kinds: (&str, &str),
    names: &[&str],
    shared: &Shared,
) -> Result<(Vec<MapHandle>, Link), BpfError> {
    load_with(name, object, kinds, names, (&[], shared))
}

/// Loads a program of this library with the given sizes of maps.
pub(crate) fn load_sized(
    name: &'static str,
    kinds: (&str, &str),
    names: &[&str],
    entries: &[(&str, u32)],
    shared: &Shared,
) -> Result<(Vec<MapHandle>, Link), BpfError> {
    let object = programs::named(name).ok_or(BpfError::NoProgram(name))?;
    load_with(name, &object, kinds, names, (entries, shared))
}

/// Loads an object as [`load`] does; it need not be part of this library. It must be aligned to
/// 8 bytes, because libbpf reads 64-bit words.
pub(crate) fn load_object(
    name: &'static str,
    object: &[u8],
    kind: &str,
    names: &[&str],
) -> Result<(Vec<MapHandle>, Link), BpfError> {
    load_with(name, object, (kind, kind), names, (&[], &Vec::new()))
}

fn load_with(
    name: &'static str,
    object: &[u8],
    (own, kind): (&str, &str),
    names: &[&str],
    (entries, shared): (&[(&str, u32)], &Shared),
) -> Result<(Vec<MapHandle>, Link), BpfError> {
    WithPrograms::of(name)?;
    let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
    let (loaded, log) = log::recorded(|| {
        let mut object = ObjectBuilder::default().name(name)?.open_memory(object)?;
        for mut map in object.maps_mut() {
            let wanted = entries.iter().find(|(name, _)| map.name() == *name);
            if let Some((_, count)) = wanted {
                map.set_max_entries(*count)?;
            }
            if let Some((_, other)) = shared.iter().find(|(name, _)| map.name() == *name) {
                map.reuse_fd(other.as_fd())?;
            }
            if own != kind && map.name() == OPS {
                rename(map.initial_value_mut(), own, kind).ok_or_else(missing)?;
            }
        }
        let mut object = object.load()?;
        let mut maps = Vec::new();
        for name in names {
            let map = object.maps().find(|map| map.name() == *name);
            let map = map.ok_or_else(missing).context(format!("map {name}"))?;
            maps.push(MapHandle::try_from(&map)?);
        }
        let ops = object.maps_mut().find(|map| map.name() == OPS);
        let mut ops = ops.ok_or_else(missing).context(OPS)?;
        let link = ops.attach_struct_ops().context("registering the qdisc")?;
        Ok((maps, link))
    });
    loaded.map_err(|source: libbpf_rs::Error| BpfError::Refused {
        kind: kind.to_owned(),
        source,
        log,
    })
}

/// Replaces the name in the operations (`id` of the kernel's `Qdisc_ops`, 16 bytes with the
/// terminating zero). Returns `None` if the old name is missing or the new one is too long.
fn rename(operations: Option<&mut [u8]>, own: &str, kind: &str) -> Option<()> {
    let operations = operations?;
    let at = operations
        .windows(own.len())
        .position(|part| part == own.as_bytes())?;
    let field = operations.get_mut(at..at + 16)?;
    let (text, rest) = field.split_at_mut_checked(kind.len())?;
    text.copy_from_slice(kind.as_bytes());
    rest.fill(0);
    (!rest.is_empty()).then_some(())
}

/// Opens what [`pin`] pinned in a folder.
pub(crate) fn open(
    folder: &Path,
    names: &[&'static str],
) -> Result<(Vec<MapHandle>, Link), BpfError> {
    WithPrograms::of(LINK)?;
    let names = names.iter();
    let maps: Result<_, _> = names.map(|name| maps::pinned(folder, name)).collect();
    let maps = maps?;
    let path = folder.join(LINK);
    let link = Link::open(&path).map_err(|source| BpfError::Pin {
        path,
        doing: "opened",
        source,
    })?;
    Ok((maps, link))
}

/// Pins maps and the link in a folder of a BPF file system.
pub(crate) fn pin(
    folder: &Path,
    maps: &mut [(&str, &mut MapHandle)],
    link: &mut Link,
) -> Result<(), BpfError> {
    let failed = |path: &Path, source| BpfError::Pin {
        path: path.to_owned(),
        doing: "made",
        source,
    };
    for (name, map) in maps {
        let path = folder.join(name);
        map.pin(&path).map_err(|source| failed(&path, source))?;
    }
    let path = folder.join(LINK);
    link.pin(&path).map_err(|source| failed(&path, source))
}

/// Pins the object of a descriptor.
#[expect(unsafe_code, reason = "libbpf-rs pins its own objects only")]
pub(crate) fn pin_descriptor(descriptor: BorrowedFd<'_>, path: &Path) -> Result<(), BpfError> {
    let failed = |source| BpfError::Pin {
        path: path.to_owned(),
        doing: "made",
        source,
    };
    let text = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| failed(std::io::Error::from(error).into()))?;
    // SAFETY: the descriptor is open; the path is terminated by zero and lives until the call
    // returns.
    let status = unsafe { libbpf_sys::bpf_obj_pin(descriptor.as_raw_fd(), text.as_ptr()) };
    if status < 0 {
        return Err(failed(libbpf_rs::Error::from_raw_os_error(-status)));
    }
    Ok(())
}

/// Removes what [`pin`] made, the link first: without the link, the kind is removed once no
/// device uses it.
pub(crate) fn unpin(folder: &Path, names: &[&str]) -> Result<(), BpfError> {
    for name in [LINK].iter().chain(names) {
        remove(&folder.join(name), |path| std::fs::remove_file(path))?;
    }
    remove(folder, |path| std::fs::remove_dir(path))
}

/// Removes a pin or a folder if it exists.
pub(crate) fn remove(
    path: &Path,
    how: impl Fn(&Path) -> std::io::Result<()>,
) -> Result<(), BpfError> {
    match how(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(BpfError::File {
            path: path.to_owned(),
            doing: "removed",
            source: error,
        }),
        _ => Ok(()),
    }
}

/// Returns whether [`pin`] completed in a folder: it makes the link's pin last.
pub(crate) fn is_pinned(folder: &Path) -> bool {
    last_pin(folder).exists()
}

/// Returns the path of the pin that is made last.
pub(crate) fn last_pin(folder: &Path) -> PathBuf {
    folder.join(LINK)
}
