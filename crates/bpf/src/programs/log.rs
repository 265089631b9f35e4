// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captures the output of libbpf, to include it in errors instead of printing it.

use libbpf_rs::{PrintLevel, set_print};
use std::sync::{Mutex, PoisonError};

/// The captured output. libbpf has a single print function for the whole process.
static PRINTED: Mutex<String> = Mutex::new(String::new());
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The largest number of lines in an error. The verifier's reason comes last, and since Linux
/// 7.3 with some 20 lines for each step that led there.
const LAST_LINES: usize = 160;

/// Runs some work with libbpf; returns its result, and what libbpf printed.
pub(crate) fn recorded<T>(work: impl FnOnce() -> T) -> (T, String) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    printed().clear();
    let before = set_print(Some((PrintLevel::Warn, keep)));
    let result = work();
    set_print(before);
    let text = std::mem::take(&mut *printed());
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let text = last
        .iter()
        .fold(String::new(), |text, line| text + "\n" + line);
    (result, text)
}

#[expect(clippy::needless_pass_by_value, reason = "libbpf-rs calls it so")]
fn keep(_level: PrintLevel, text: String) {
    printed().push_str(&text);
}

fn printed() -> std::sync::MutexGuard<'static, String> {
    PRINTED.lock().unwrap_or_else(PoisonError::into_inner)
}
