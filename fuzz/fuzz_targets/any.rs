// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Gives libFuzzer the target that `WEIRGATE_FUZZ_TARGET` names, with the dictionary in the file
//! `WEIRGATE_FUZZ_DICTIONARY`. `cargo xtask fuzz` sets both variables.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::sync::LazyLock;
use weirgate_fuzz::Target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("WEIRGATE_FUZZ_TARGET").expect("WEIRGATE_FUZZ_TARGET names a target");
    Target::named(&name).expect("a target of this name")
});

static DICTIONARY: LazyLock<String> = LazyLock::new(|| {
    let path = std::env::var_os("WEIRGATE_FUZZ_DICTIONARY");
    path.and_then(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default()
});

fuzz_target!(|data: &[u8]| -> Corpus {
    match TARGET.run(data) {
        weirgate_fuzz::Corpus::Keep => Corpus::Keep,
        weirgate_fuzz::Corpus::Reject => Corpus::Reject,
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    match TARGET.mutated(&data[..size], max_size, seed, &DICTIONARY) {
        Some(text) => {
            data[..text.len()].copy_from_slice(&text);
            text.len()
        }
        None => fuzzer_mutate(data, size, max_size),
    }
});
