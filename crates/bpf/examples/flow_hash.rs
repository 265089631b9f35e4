// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How well and how fast hash functions tell flows apart (Braithwaite 2006,
//! section 4.2.3), over the thesis's candidates and today's.
//!
//! Quality as there: the key's first word is 0, s, 2s and so on (the stripe),
//! its hash is taken modulo a table of a power of two, and the hits of each
//! place are counted. In place of a plot there is a number: chi-square over its
//! degrees of freedom, which is 1 for uniform hashing, far below 1 where places
//! are filled too evenly, far above where few take all. Speed: so many keys of
//! three words, ten to a turn of the loop, one after the other as packets come;
//! in nanoseconds here, or in instructions in the lab's virtual machine, whose
//! clock counts them, so that they are the same on every machine.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the tables and what failed go to the terminal"
)]

use std::collections::BTreeSet;
use std::env;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use weirgate_lab::{Lab, Limits, Options};

/// Keys of a row of the table: 16 for each place.
const KEYS: u32 = 1 << 20;
/// Places.
const TABLE: u32 = 1 << 16;
/// Distances between keys. None repeats keys within 32 bits.
const STRIPES: [u32; 4] = [1, 4, 256, 1000];

/// Three words: addresses, and ports together.
type Key = [u32; 3];

/// The multiplier of hash1 and hash2; the thesis says only that it is large
/// and odd. This is that of Numerical Recipes' generator.
const MULTIPLIER: u32 = 1_664_525;

/// The thesis's hash1: for each byte `a = a m + byte`.
fn hash1(key: &[u32]) -> u32 {
    let bytes = key.iter().flat_map(|word| word.to_le_bytes());
    bytes.fold(0, |a: u32, byte| {
        a.wrapping_mul(MULTIPLIER).wrapping_add(u32::from(byte))
    })
}

/// Its hash2: for each word `a = ((a >> 16) + a m) xor word`.
fn hash2(key: &[u32]) -> u32 {
    key.iter().fold(0, |a: u32, word| {
        (a >> 16).wrapping_add(a.wrapping_mul(MULTIPLIER)) ^ word
    })
}

/// Bob Jenkins's lookup2 (1996): the golden ratio, three words, one mix.
fn lookup2(key: &[u32]) -> u32 {
    let word = |at: usize| key.get(at).copied().unwrap_or(0);
    let mut a = 0x9e37_79b9_u32.wrapping_add(word(0));
    let mut b = 0x9e37_79b9_u32.wrapping_add(word(1));
    let mut c = word(2);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 13);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 8);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 13);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 12);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 16);
    c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 5);
    a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> 3);
    b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << 10);
    c.wrapping_sub(a).wrapping_sub(b) ^ (b >> 15)
}

/// The kernel's `jhash_3words` (include/linux/jhash.h), which is the final mix
/// of Jenkins's lookup3 (2006).
fn jhash(key: &[u32]) -> u32 {
    // JHASH_INITVAL, and the length of three words, as the kernel adds it.
    const START: u32 = 0xdead_beef + (3 << 2);
    let word = |at: usize| START.wrapping_add(key.get(at).copied().unwrap_or(0));
    let (mut a, mut b, mut c) = (word(0), word(1), word(2));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// One round of SipHash (Aumasson and Bernstein 2012).
const fn round(mut v: [u64; 4]) -> [u64; 4] {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
    v
}

/// `SipHash` of 8-byte blocks and a last one that ends in the length, with so
/// many rounds for each block and at the end.
fn siphash(seed: [u64; 2], blocks: &[u64], rounds: usize, last: usize) -> u64 {
    let mut v = [
        seed[0] ^ 0x736f_6d65_7073_6575,
        seed[1] ^ 0x646f_7261_6e64_6f6d,
        seed[0] ^ 0x6c79_6765_6e65_7261,
        seed[1] ^ 0x7465_6462_7974_6573,
    ];
    for block in blocks {
        v[3] ^= block;
        for _ in 0..rounds {
            v = round(v);
        }
        v[0] ^= block;
    }
    v[2] ^= 0xff;
    for _ in 0..last {
        v = round(v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

/// Some boot's secret: what it is makes no difference to the figures.
const SECRET: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

fn of_words(key: &[u32], rounds: usize, last: usize) -> u32 {
    let word = |at: usize| u64::from(key.get(at).copied().unwrap_or(0));
    // 12 bytes: one block, then the third word and the length.
    let blocks = [word(0) | word(1) << 32, word(2) | 12 << 56];
    siphash(SECRET, &blocks, rounds, last) as u32
}

/// `SipHash-2-4`.
fn siphash24(key: &[u32]) -> u32 {
    of_words(key, 2, 4)
}

/// `SipHash-1-3`, the kernel's `hsiphash` on 64-bit machines
/// (lib/siphash.c), by which it hashes a packet's flow.
fn hsiphash(key: &[u32]) -> u32 {
    of_words(key, 1, 3)
}

/// A control: it has the place of the key in its order and no more.
fn random(key: &[u32]) -> u32 {
    let at = key.first().copied().unwrap_or(0);
    let mut z = (u64::from(at) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as u32
}

/// No hash, for what the loop around one takes.
fn first(key: &[u32]) -> u32 {
    let word = |at: usize| key.get(at).copied().unwrap_or(0);
    word(0) ^ word(1) ^ word(2)
}

type Hash = fn(&[u32]) -> u32;

const CANDIDATES: [(&str, Hash); 7] = [
    ("hash1", hash1),
    ("hash2", hash2),
    ("lookup2", lookup2),
    ("jhash", jhash),
    ("siphash-2-4", siphash24),
    ("siphash-1-3", hsiphash),
    ("control", random),
];

/// What a row of the table says.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Quality {
    /// Chi-square over its degrees of freedom.
    chi: f64,
    /// Places that nothing hit, of all.
    empty: f64,
    /// Hits of the fullest place over the mean.
    fullest: f64,
}

/// `words` is how many words a key has; those after the first are 0.
fn quality(hash: Hash, stripe: u32, words: usize) -> Quality {
    let mut hits = vec![0_u32; TABLE as usize];
    for number in 0..KEYS {
        let key: Key = [number.wrapping_mul(stripe), 0, 0];
        if let Some(place) = hits.get_mut((hash(&key[..words]) % TABLE) as usize) {
            *place += 1;
        }
    }
    let mean = f64::from(KEYS) / f64::from(TABLE);
    let square = |hits: &u32| (f64::from(*hits) - mean).powi(2) / mean;
    let sum: f64 = hits.iter().map(square).sum();
    let empty = hits.iter().filter(|hits| **hits == 0).count();
    let fullest = hits.iter().copied().max().unwrap_or(0);
    Quality {
        chi: sum / f64::from(TABLE - 1),
        empty: empty as f64 / f64::from(TABLE),
        fullest: f64::from(fullest) / mean,
    }
}

/// Nanoseconds for a key of three words, over so many keys: the least of five.
fn speed(hash: impl Fn(&[u32]) -> u32, keys: u32) -> f64 {
    let once = || {
        let began = Instant::now();
        let mut sum = 0_u32;
        for turn in 0..keys / 10 {
            for number in 0..10 {
                // Each key waits for the hash before it, as nothing of the next
                // packet is known.
                let key: Key = [turn ^ (sum & 1), number, turn >> 8];
                // Hidden from the compiler, which would calculate with the
                // turn's ten numbers beforehand.
                sum ^= hash(&black_box(key));
            }
        }
        black_box(sum);
        began.elapsed().as_secs_f64() * 1e9 / f64::from(keys / 10 * 10)
    };
    (0..5).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// Keys where instructions are counted: every run gives the same.
const COUNTED: u32 = 100_000;

/// What is asked for.
const USAGE: &str = "flow_hash [--keys N | --instructions]";
/// Keys where time is taken, unless others are asked for.
const TIMED: u32 = 100_000_000;
/// What the lab's machine is asked for.
const INSIDE: &str = "--inside";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        [] => {
            timed(TIMED);
            Ok(())
        }
        ["--keys", keys] => keys.parse().map(timed).map_err(|_| USAGE.to_owned()),
        ["--instructions"] => in_the_lab(),
        [INSIDE] => {
            speeds(COUNTED, "instructions");
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the tables; `keys` are hashed for the speed of each.
fn timed(keys: u32) {
    qualities();
    speeds(keys, "ns");
}

/// The same, but speeds are those of the lab's machine, in instructions.
fn in_the_lab() -> Result<(), String> {
    qualities();
    let own = env::current_exe().map_err(|error| error.to_string())?;
    let base = own.file_name().unwrap_or_default().to_string_lossy();
    let options = Options {
        programs: BTreeSet::from([own.to_string_lossy().into_owned()]),
        ..Options::default()
    };
    let limits = Limits {
        wall: Duration::from_mins(30),
        ..Limits::default()
    };
    let lab = Lab::open(&options, &mut |_| ()).map_err(|error| error.to_string())?;
    let output = lab.execute(&[&*base, INSIDE], &[], (1, limits), &mut |_| ());
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.result).into_owned();
    match text.split_once('\n') {
        Some(("status: 0", answer)) => println!("{}", answer.trim_end()),
        _ => return Err(format!("in the lab's machine: {}", text.trim_end())),
    }
    Ok(())
}

/// Prints how long a key takes, in what the clock counts.
fn speeds(keys: u32, unit: &str) {
    println!("\n{unit} for a key of three words, {keys} keys, least of five");
    // Each by itself, so that the compiler puts it into the loop.
    let speeds = [
        ("loop alone", speed(first, keys)),
        ("hash1", speed(hash1, keys)),
        ("hash2", speed(hash2, keys)),
        ("lookup2", speed(lookup2, keys)),
        ("jhash", speed(jhash, keys)),
        ("siphash-2-4", speed(siphash24, keys)),
        ("siphash-1-3", speed(hsiphash, keys)),
    ];
    for (name, each) in speeds {
        println!("{name:<12} {each:>6.2}");
    }
}

/// Prints how evenly each hash fills a table, and how rarely hashes meet.
fn qualities() {
    println!(
        "chi-square/df, empty places, fullest place over the mean; {KEYS} keys, {TABLE} places\n"
    );
    println!("hash         words stripe     chi/df   empty  fullest");
    for (name, hash) in CANDIDATES {
        for words in [1, 3] {
            for stripe in STRIPES {
                let found = quality(hash, stripe, words);
                println!(
                    "{name:<12} {words:>5} {stripe:>6} {:>10.2} {:>6.1}% {:>8.1}",
                    found.chi,
                    found.empty * 100.0,
                    found.fullest
                );
            }
        }
    }
    println!("\nno two of so many flows share a 32-bit hash");
    for flows in [10, 100, 1000, 10_000] {
        println!("{flows:>6} {:.11}", no_collision(flows));
    }
}

/// The probability that so many flows have 32-bit hashes of their own.
fn no_collision(flows: u32) -> f64 {
    let logs = (0..flows).map(|i| (-f64::from(i) / 4_294_967_296.0).ln_1p());
    logs.sum::<f64>().exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siphash_is_the_papers() {
        // Appendix A: the bytes 00 to 0e under the key 00 to 0f.
        let blocks = [
            0x0706_0504_0302_0100,
            0x0f0e_0d0c_0b0a_0908 & !(0xff << 56) | 15 << 56,
        ];
        assert_eq!(siphash(SECRET, &blocks, 2, 4), 0xa129_ca61_49be_45e5);
    }

    #[test]
    fn jenkins_mixes_every_bit() {
        // Each bit of the key changes about half of the hash's bits.
        for hash in [lookup2 as Hash, jhash, siphash24, hsiphash] {
            for bit in 0..96 {
                let mut changed = 0;
                for number in 0..64_u32 {
                    let key: Key = [number.wrapping_mul(0x9e37_79b9), number, !number];
                    let mut other = key;
                    other[bit / 32] ^= 1 << (bit % 32);
                    changed += (hash(&key) ^ hash(&other)).count_ones();
                }
                assert!((700..1350).contains(&changed), "bit {bit}: {changed}");
            }
        }
    }

    #[test]
    fn the_records_figures_come_again() {
        // Rerun of the thesis's plots, as the project's records have it.
        let one = |hash, stripe| quality(hash, stripe, 1);
        assert!((0.06..0.24).contains(&one(hash1, 4).chi));
        let hash2_4 = one(hash2, 4);
        assert!((hash2_4.empty - 0.75).abs() < 0.01, "{hash2_4:?}");
        assert!(one(hash2, 256).chi > 1000.0);
        for hash in [lookup2 as Hash, jhash, siphash24, hsiphash, random] {
            for stripe in STRIPES {
                let chi = quality(hash, stripe, 3).chi;
                assert!((0.97..1.03).contains(&chi), "{chi}");
            }
        }
        assert!((no_collision(10) - 0.999_999_989_52).abs() < 1e-10);
        assert!((no_collision(10_000) - 0.98843).abs() < 1e-5);
    }
}
