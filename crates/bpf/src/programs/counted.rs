// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts what the kernel holds, whoever loaded it.

use std::ffi::c_int;
use std::io::{Error, Result};

/// The numbers of BPF objects in the kernel, of all programs and namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objects {
    /// Programs, by `BPF_PROG_GET_NEXT_ID`.
    pub programs: u64,
    /// Maps, by `BPF_MAP_GET_NEXT_ID`.
    pub maps: u64,
}

/// Counts the BPF objects in the running kernel.
///
/// # Errors
///
/// Fails without CAP_SYS_ADMIN.
pub fn objects() -> Result<Objects> {
    Ok(Objects {
        programs: count(libbpf_sys::bpf_prog_get_next_id)?,
        maps: count(libbpf_sys::bpf_map_get_next_id)?,
    })
}

/// Iterates over identifiers. libbpf-rs also opens each object, and ends early if it does not know
/// the kind of one.
fn count(next: unsafe extern "C" fn(u32, *mut u32) -> c_int) -> Result<u64> {
    let (mut id, mut number) = (0, 0);
    loop {
        #[expect(unsafe_code, reason = "libbpf-rs has no iterator over identifiers")]
        // SAFETY: it writes one number, for which there is room.
        let status = unsafe { next(id, &raw mut id) };
        if status == 0 {
            number += 1;
            continue;
        }
        let error = Error::from_raw_os_error(-status);
        return match error.raw_os_error() {
            Some(libc::ENOENT) => Ok(number),
            _ => Err(error),
        };
    }
}
