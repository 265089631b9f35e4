// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compiled programs, part of this library.

/// libbpf reads an object in place, as 64-bit words.
#[repr(C, align(8))]
struct Aligned<const N: usize>([u8; N]);

// `PROGRAMS`: every program below `bpf/`, by name.
include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// The program of a discipline.
pub(crate) fn named(name: &str) -> Option<&'static [u8]> {
    PROGRAMS
        .iter()
        .find(|(own, _)| *own == name)
        .map(|(_, object)| *object)
}

/// A number that tells versions of a program apart (FNV-1a of its object).
pub(crate) fn digest(name: &str) -> u32 {
    let bytes = named(name).unwrap_or_default();
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// The sources that the programs were made from, and libbpf's headers: path and
/// text. Someone else's discipline is compiled with these.
pub fn sources() -> &'static [(&'static str, &'static str)] {
    SOURCES
}
