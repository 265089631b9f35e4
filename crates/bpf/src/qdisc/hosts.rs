// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Determines the inside host of a packet: a program at egress of the device, which runs before
//! the qdisc, looks it up in connection tracking (`bpf/egress/hosts.bpf.c`).

use crate::error::BpfError;
use crate::layout::hosts_of;
use crate::programs::tcx::{Attached, End};
use crate::programs::{self, log};
use crate::qdisc::attach_point::AttachPoint;
use libbpf_rs::{ErrorExt, ObjectBuilder};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::os::fd::AsFd;
use zerocopy::IntoBytes as _;

/// The object file and the program in it.
const FILE: &str = "hosts";
const PROGRAM: &str = "hosts_egress";

/// Attaches the program to the device of an attach point, which must be in the network namespace
/// of this thread. Also returns the stamp by which the qdisc recognises values of the program.
pub(crate) fn attach(point: AttachPoint, arriving: bool) -> Result<(Attached, u32), BpfError> {
    let random = RandomState::new().build_hasher().finish();
    let (stamp, key) = (random as u32 | 1, (random >> 32) as u32);
    let program = programs::named(FILE).ok_or(BpfError::NoProgram(FILE))?;
    let of = hosts_of {
        stamp,
        key,
        arriving: arriving.into(),
    };
    let (attached, log) = log::recorded(|| {
        let mut open = ObjectBuilder::default().name(FILE)?.open_memory(&program)?;
        for mut map in open.maps_mut() {
            if map.name().to_string_lossy().ends_with(".rodata") {
                map.set_initial_value(of.as_bytes())
                    .context("the program's constants")?;
            }
        }
        let object = open.load()?;
        let missing = || libbpf_rs::Error::from_raw_os_error(libc::ENOENT);
        let program = object.progs().find(|program| program.name() == PROGRAM);
        let program = program.ok_or_else(missing).context(PROGRAM)?;
        Attached::to(program.as_fd(), point.ifindex, End::Egress)
            .context("putting it on the device")
    });
    let attached = attached.map_err(|source| BpfError::Refused {
        kind: "the program that tells hosts apart".to_owned(),
        source,
        log,
    })?;
    Ok((attached, stamp))
}
