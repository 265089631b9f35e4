// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captures what libbpf prints, for the error instead of the terminal.

use libbpf_rs::{PrintLevel, set_print};
use std::sync::{Mutex, PoisonError};

/// libbpf knows one function to print with, for the whole process.
static PRINTED: Mutex<String> = Mutex::new(String::new());
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Lines that an error shows at most. The verifier ends with what matters: its reason, and
/// since Linux 7.3 some 20 lines for each step that led there.
const LAST_LINES: usize = 160;

/// Does some work with libbpf; with its result, what was printed meanwhile.
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
