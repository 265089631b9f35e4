// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs attached to a device by tcx (Linux 6.6), where packets arrive or leave: links that end
//! with their pin or with the device.

use crate::error::BpfError;
use crate::present::WithPrograms;
use crate::qdisc::load::pin_descriptor as pin;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Where at a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Packets arrive.
    Ingress,
    /// They leave, before the qdisc.
    Egress,
}

/// A program on a device: it goes with this, unless it is pinned.
#[derive(Debug)]
pub struct Attached(OwnedFd, WithPrograms);

impl Attached {
    /// Links a program to a device of this thread's network namespace, after
    /// those that are there.
    pub(crate) fn to(program: BorrowedFd<'_>, ifindex: u32, end: End) -> libbpf_rs::Result<Self> {
        Self::before(program, ifindex, end, None)
    }

    /// The same before one that is there, which is pinned.
    #[expect(unsafe_code, reason = "libbpf-rs has no tcx")]
    pub(crate) fn before(
        program: BorrowedFd<'_>,
        ifindex: u32,
        end: End,
        next: Option<&Pinned>,
    ) -> libbpf_rs::Result<Self> {
        let with = WithPrograms::here();
        let with = with.ok_or_else(|| libbpf_rs::Error::from_raw_os_error(libc::ENOSYS))?;
        let attach_type = match end {
            End::Ingress => libbpf_sys::BPF_TCX_INGRESS,
            End::Egress => libbpf_sys::BPF_TCX_EGRESS,
        };
        // SAFETY: a structure of numbers and one pointer, which may be null.
        let mut options: libbpf_sys::bpf_link_create_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as libbpf_sys::size_t;
        if let Some(next) = next {
            options.flags = libbpf_sys::BPF_F_BEFORE | libbpf_sys::BPF_F_LINK;
            options.__bindgen_anon_1.tcx.relative_fd = next.link.as_raw_fd().cast_unsigned();
        }
        // SAFETY: the descriptors are open, the device is a number, and the options live
        // until the call returns. What comes back is a descriptor that nobody else has, or
        // an error.
        unsafe {
            let link = libbpf_sys::bpf_link_create(
                program.as_raw_fd(),
                ifindex.cast_signed(),
                attach_type,
                &raw const options,
            );
            if link < 0 {
                return Err(libbpf_rs::Error::from_raw_os_error(-link));
            }
            Ok(Self(OwnedFd::from_raw_fd(link), with))
        }
    }

    /// Keeps the program on its device beyond this process: a pin in a BPF file
    /// system. It goes with the pin, or with the device.
    pub(crate) fn pin(&self, path: &Path) -> Result<(), BpfError> {
        pin(self.0.as_fd(), path)
    }
}

/// A program that is on a device by a pinned link.
#[derive(Debug)]
pub(crate) struct Pinned {
    link: OwnedFd,
    _with: WithPrograms,
    /// The number of the program.
    pub program: u32,
}

/// Whether a pinned program is on this device: its link stays when somebody takes
/// the program off, or the device goes, but is of no device then.
pub(crate) fn is_on(path: &Path, ifindex: u32) -> bool {
    on(path, ifindex).is_some()
}

/// The program that is pinned there; `None` where it is not on this device.
#[expect(unsafe_code, reason = "libbpf-rs opens its own links only")]
pub(crate) fn on(path: &Path, ifindex: u32) -> Option<Pinned> {
    let with = WithPrograms::here()?;
    let text = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: the path ends in zero and lives until the call returns. What comes
    // back is a descriptor that nobody else has, or negative.
    let link = unsafe {
        let link = libbpf_sys::bpf_obj_get(text.as_ptr());
        if link < 0 {
            return None;
        }
        OwnedFd::from_raw_fd(link)
    };
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the descriptor is open, and the kernel writes at most `size` bytes
    // of a structure that is made of numbers. Of a link of this kind the union has
    // what is read.
    let there = unsafe {
        let status =
            libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut size);
        status == 0
            && info.type_ == libbpf_sys::BPF_LINK_TYPE_TCX
            && info.__bindgen_anon_1.tcx.ifindex == ifindex
    };
    there.then_some(Pinned {
        link,
        _with: with,
        program: info.prog_id,
    })
}
