// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions at a terminal.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use weirgate_console::exit::{Failure, wrong};
use weirgate_init::Question;

/// The source of answers that no option gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// A user at a terminal.
    Terminal,
    /// The suggested values.
    Defaults,
    /// No source: a question is an error.
    Nobody,
}

impl Ask {
    /// Returns the terminal if there is one, or `Defaults` if nothing is to be asked.
    pub fn of(silent: bool) -> Self {
        if silent {
            Self::Defaults
        } else if io::stdin().is_terminal() && io::stderr().is_terminal() {
            Self::Terminal
        } else {
            Self::Nobody
        }
    }

    /// Returns whether questions are asked.
    pub fn asks(self) -> bool {
        self == Self::Terminal
    }

    /// Returns whether the suggested values are used.
    pub fn takes_defaults(self) -> bool {
        self == Self::Defaults
    }

    /// Asks until the answer is valid. An empty answer means the default.
    pub fn question<T>(
        self,
        question: &Question,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let default = question.default.as_deref();
        if !self.asks() {
            let lacks = || {
                format!(
                    "there is no terminal for questions: give {}",
                    question.options
                )
            };
            return read(default.ok_or_else(|| wrong(lacks()))?).map_err(wrong);
        }
        say(&format!("\n{}\n", question.title))?;
        for (at, choice) in question.choices.iter().enumerate() {
            say(&format!("  {}  {choice}\n", at + 1))?;
        }
        loop {
            let text = entered(&default.map_or_else(String::new, |one| format!("[{one}] ")))?;
            let text = match text.trim() {
                "" => default.unwrap_or_default(),
                text => text,
            };
            match read(text) {
                Ok(answer) => return Ok(answer),
                Err(why) => say(&format!("{why}\n"))?,
            }
        }
    }

    /// Asks a yes-or-no question. Only `y` and `yes` mean yes. Without a terminal the answer is no.
    pub fn offer(self, what: &str) -> Result<bool, Failure> {
        if !self.asks() {
            return Ok(false);
        }
        let answer = entered(&format!("{what} [y/N] "))?;
        let answer = answer.trim().to_ascii_lowercase();
        Ok(answer == "y" || answer == "yes")
    }
}

fn say(text: &str) -> io::Result<()> {
    let mut err = io::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}

/// Reads a line of input. The end of the input (Ctrl-D) is an error.
fn entered(prompt: &str) -> Result<String, Failure> {
    say(&format!("> {prompt}"))?;
    let mut text = String::new();
    if io::stdin().lock().read_line(&mut text)? == 0 {
        say("\n")?;
        return Err(wrong("no answer was given"));
    }
    Ok(text)
}
