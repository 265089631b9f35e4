// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links, packets and random numbers for tests.
#![allow(dead_code, reason = "each test file uses a part")]

#[allow(unused_imports, reason = "each test file uses a part")]
pub use weirgate_aqm::Chance;
use weirgate_aqm::{Discipline, Link, Packet, Queue, Settings};

/// 1 as a ratio in 32.32 fixed point.
pub const ONE: u64 = 1 << 32;

/// A second.
pub const S: u64 = 1_000_000_000;

/// A millisecond.
pub const MS: u64 = 1_000_000;

/// Returns a link of `bits_s` bits a second with packets of 1500 bytes.
pub fn link(bits_s: u64) -> Link {
    Link {
        rate_bytes_s: bits_s / 8,
        mtu_bytes: 1500,
        ..Link::default()
    }
}

/// Returns a packet of `len` bytes.
pub fn packet(arrived_ns: u64, len: u32) -> Packet {
    Packet {
        arrived_ns,
        len,
        wire: len,
        flow: 1,
        ecn: 0,
    }
}

/// Returns a queue of a discipline with parameters by name.
pub fn queue<T>(name: &str, link: &Link, params: &[(&str, u64)]) -> Queue<T> {
    let every = Discipline::every();
    let discipline = every.into_iter().find(|one| one.name() == name);
    let discipline = discipline.expect("a discipline");
    let mut settings = Settings::new(discipline);
    for (name, value) in params {
        settings.set(name, *value).expect("a parameter");
    }
    Queue::new(&settings, link)
}
