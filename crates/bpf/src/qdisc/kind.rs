// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What every program of the kit has in common: loading it and its kind of
//! qdisc, its maps, pins of both.

use crate::error::BpfError;
use crate::maps::failed;
use crate::programs::{self, log};
use libbpf_rs::{ErrorExt, Link, MapCore, MapFlags, MapHandle, ObjectBuilder};
use std::path::Path;
use weirgate_aqm::Link as LinkFacts;

/// Names of maps, in programs and as pins.
pub(crate) const SETTINGS: &str = "settings";
pub(crate) const INSTANCES: &str = "instances";
pub(crate) const CHANGES: &str = "changes";
pub(crate) const RECORDERS: &str = "recorders";

/// The pin of what registers the kind.
const LINK: &str = "link";

/// The map that libbpf makes of the program's operations.
const OPS: &str = "qdisc";

/// Loads a program and registers its kind of qdisc; its maps in the order of
/// `names`.
pub(crate) fn load(
    name: &'static str,
    kind: &str,
    names: &[&str],
) -> Result<(Vec<MapHandle>, Link), BpfError> {
    let object = programs::named(name).ok_or(BpfError::NoProgram(name))?;
    load_object(name, object, kind, names)
}

/// The same of a program that need not be part of this library; libbpf reads
/// 64-bit words, at which the object must begin.
pub(crate) fn load_object(
    name: &'static str,
    object: &[u8],
    kind: &str,
    names: &[&str],
) -> Result<(Vec<MapHandle>, Link), BpfError> {
    let (loaded, log) = log::recorded(|| {
        let mut object = ObjectBuilder::default()
            .name(name)?
            .open_memory(object)?
            .load()?;
        let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
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

/// What [`pin`] left in a folder.
pub(crate) fn open(folder: &Path, names: &[&str]) -> Result<(Vec<MapHandle>, Link), BpfError> {
    let mut maps = Vec::new();
    for name in names {
        let path = folder.join(name);
        maps.push(
            MapHandle::from_pinned_path(&path).map_err(|source| BpfError::Pin {
                path,
                doing: "opened",
                source,
            })?,
        );
    }
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

/// Tells an instance that its settings are new.
pub(crate) fn raise(kind: &str, changes: &MapHandle, number: u32) -> Result<(), BpfError> {
    let key = number.to_ne_bytes();
    let count = changes
        .lookup(&key, MapFlags::ANY)
        .map_err(failed(kind, CHANGES, "read"))?
        .and_then(|count| count.try_into().ok())
        .map_or(0, u32::from_ne_bytes);
    changes
        .update(&key, &count.wrapping_add(1).to_ne_bytes(), MapFlags::ANY)
        .map_err(failed(kind, CHANGES, "written"))
}

/// `struct aqm_link`.
pub(crate) fn encode_link(link: &LinkFacts) -> Vec<u8> {
    let mut bytes = link.rate_bytes_s.to_ne_bytes().to_vec();
    for word in [
        link.mtu_bytes,
        link.overhead_bytes.cast_unsigned(),
        link.mpu_bytes,
        link.framing,
        link.queue_packets,
        link.room_packets,
    ] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes
}

/// `struct aqm_link`, read.
pub(crate) fn decode_link(bytes: &[u8]) -> Option<LinkFacts> {
    let words: Vec<u32> = bytes
        .get(8..size_of::<LinkFacts>())?
        .as_chunks::<4>()
        .0
        .iter()
        .map(|word| u32::from_ne_bytes(*word))
        .collect();
    Some(LinkFacts {
        rate_bytes_s: u64::from_ne_bytes(*bytes.first_chunk()?),
        mtu_bytes: *words.first()?,
        overhead_bytes: words.get(1)?.cast_signed(),
        mpu_bytes: *words.get(2)?,
        framing: *words.get(3)?,
        queue_packets: *words.get(4)?,
        room_packets: *words.get(5)?,
    })
}

/// Removes what [`pin`] made, the link first: without it the kind is gone once
/// no device uses it.
pub(crate) fn unpin(folder: &Path, names: &[&str]) -> Result<(), BpfError> {
    for name in [LINK].iter().chain(names) {
        remove(&folder.join(name), |path| std::fs::remove_file(path))?;
    }
    remove(folder, |path| std::fs::remove_dir(path))
}

/// Removes a pin or a folder, if it is there.
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

/// Whether [`pin`] finished in a folder: it makes the link's pin last.
pub(crate) fn is_pinned(folder: &Path) -> bool {
    folder.join(LINK).exists()
}
