// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing to the terminal: data to standard output, notes to standard error.

use std::io::{self, Write};

/// Writes data and a newline. A reader that has gone away (a closed pipe) is
/// no error of ours.
pub fn data(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| {
            if text.ends_with('\n') {
                Ok(())
            } else {
                out.write_all(b"\n")
            }
        })
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Writes a note for the person at the terminal. Where standard error is
/// closed there is nobody to tell.
pub fn note(text: &str) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "{}", text.trim_end_matches('\n'));
}
