// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The compiled programs, part of this library.

use weirgate_units::fnv1a_64;

/// libbpf reads an object in place, as 64-bit words.
#[repr(C, align(8))]
struct Aligned<const N: usize>([u8; N]);

// `PROGRAMS`: the name, the digest and the object of every program below `bpf/`.
include!(concat!(env!("OUT_DIR"), "/programs.rs"));

/// Programs of measurements in the lab, which no device ever has.
const OF_THE_LAB: [&str; 4] = ["fifo", "line", "send", "watch"];

/// Every compiled program that weirgate may load on a router, with its name.
pub fn programs() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let of_the_lab = |name: &str| OF_THE_LAB.contains(&name);
    let all = PROGRAMS.iter().map(|(name, _, object)| (*name, *object));
    all.filter(move |(name, _)| !of_the_lab(name))
}

/// The program of this name.
pub(crate) fn named(name: &str) -> Option<&'static [u8]> {
    let found = PROGRAMS.iter().find(|(own, ..)| *own == name);
    found.map(|(.., object)| *object)
}

/// The ingress program of a discipline of the kit, with its name.
pub(crate) fn ingress(discipline: &str) -> Option<(&'static str, &'static [u8])> {
    let own = |name: &str| name.strip_prefix("ingress_") == Some(discipline);
    programs().find(|(name, _)| own(name))
}

/// A number that tells versions of a program apart; 0 where there is none.
pub(crate) fn digest(name: &str) -> u32 {
    let found = PROGRAMS.iter().find(|(own, ..)| *own == name);
    found.map_or(0, |(_, digest, _)| *digest)
}

/// The sources that the programs were made from, and libbpf's headers: path and
/// text. Someone else's discipline is compiled with these.
pub fn sources() -> &'static [(&'static str, &'static str)] {
    SOURCES
}

/// What tells versions of the kit's sources apart: a discipline that was built
/// by itself carries the number of those that it was built with.
pub fn kit_number() -> u64 {
    source_number(SOURCES.iter().map(|(_, text)| text.as_bytes()))
}

/// A number that tells texts apart (FNV-1a of all of them).
pub fn source_number<'t>(texts: impl IntoIterator<Item = &'t [u8]>) -> u64 {
    fnv1a_64(texts.into_iter().flatten().copied())
}
