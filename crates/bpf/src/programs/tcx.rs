// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attaches programs to a device by tcx (Linux 6.6) at ingress or egress. A link ends with its
//! pin or with the device.

use crate::error::BpfError;
use crate::present::WithPrograms;
use crate::qdisc::load::pin_descriptor as pin;
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The hook of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Where packets arrive.
    Ingress,
    /// Where packets leave, before the qdisc.
    Egress,
}

/// A program that is attached to a device. It is detached when this is dropped, unless it is
/// pinned.
#[derive(Debug)]
pub struct Attached(OwnedFd, WithPrograms);

impl Attached {
    /// Attaches a program to a device in the network namespace of this thread, after the
    /// existing ones.
    pub(crate) fn to(program: BorrowedFd<'_>, ifindex: u32, end: End) -> libbpf_rs::Result<Self> {
        Self::before(program, ifindex, end, None)
    }

    /// Attaches a program before an existing one, which is pinned.
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
        // SAFETY: the structure consists of integers and one pointer, which may be null.
        let mut options: libbpf_sys::bpf_link_create_opts = unsafe { std::mem::zeroed() };
        options.sz = size_of_val(&options) as libbpf_sys::size_t;
        if let Some(next) = next {
            options.flags = libbpf_sys::BPF_F_BEFORE | libbpf_sys::BPF_F_LINK;
            options.__bindgen_anon_1.tcx.relative_fd = next.link.as_raw_fd().cast_unsigned();
        }
        // SAFETY: the descriptors are open, and the options live until the call returns. The
        // result is an error, or a new descriptor with no other owner.
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

    /// Pins the attachment in a BPF file system, so that it outlives this process. It ends with
    /// the pin or with the device.
    pub(crate) fn pin(&self, path: &Path) -> Result<(), BpfError> {
        pin(self.0.as_fd(), path)
    }
}

/// A program that is attached to a device by a pinned link.
#[derive(Debug)]
pub(crate) struct Pinned {
    link: OwnedFd,
    _with: WithPrograms,
    /// The identifier of the program.
    pub program: u32,
}

/// Returns whether a pinned program is attached to this device. If the program was detached or
/// the device was removed, the link still exists, but without a device.
pub(crate) fn is_on(path: &Path, ifindex: u32) -> bool {
    on(path, ifindex).is_some()
}

/// Returns the pinned program; `None` if it is not attached to this device.
#[expect(unsafe_code, reason = "libbpf-rs opens its own links only")]
pub(crate) fn on(path: &Path, ifindex: u32) -> Option<Pinned> {
    let with = WithPrograms::here()?;
    let text = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: the path is terminated by zero and lives until the call returns. The result is a
    // new descriptor with no other owner, or negative.
    let link = unsafe {
        let link = libbpf_sys::bpf_obj_get(text.as_ptr());
        if link < 0 {
            return None;
        }
        OwnedFd::from_raw_fd(link)
    };
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut size = size_of_val(&info) as u32;
    // SAFETY: the descriptor is open, and the kernel writes at most `size` bytes of a structure
    // of integers. For a link of this type, the union contains the member that is read.
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
