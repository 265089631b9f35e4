// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The terminal of `weirgate top`: its keys, and the visible part of the lines.

use crate::whole::top::format::cut;
use crate::whole::top::lines::{BROKEN, Look, Order, Part, View, lines};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use terminal_size::{Height, Width, terminal_size};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use weirgate_console::output;
use weirgate_watch::Legend;

/// The last line: the keys.
const KEYS: &str = "a)ll c)lass h)ost f)low u:queue s)ervice r)ule e)vent d)ev o)rder p)ause q)uit";

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    End,
    Hold,
    Show(Part),
    Order,
    /// Scrolls by lines and pages.
    Scroll {
        lines: isize,
        pages: isize,
    },
    Begin,
}

/// Converts the bytes from a terminal to keys. Keys without a character send escape sequences
/// (ECMA-48; xterm's for cursor keys).
fn keys(bytes: &[u8]) -> Vec<Key> {
    let scroll = |lines, pages| Key::Scroll { lines, pages };
    let sequences: [(&[u8], Key); 7] = [
        (b"\x1b[A", scroll(-1, 0)),
        (b"\x1bOA", scroll(-1, 0)),
        (b"\x1b[B", scroll(1, 0)),
        (b"\x1bOB", scroll(1, 0)),
        (b"\x1b[5~", scroll(0, -1)),
        (b"\x1b[6~", scroll(0, 1)),
        (b"\x1b[H", Key::Begin),
    ];
    let mut found = Vec::new();
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        let sequence = sequences
            .iter()
            .find(|(sequence, _)| rest.starts_with(sequence));
        if let Some((sequence, key)) = sequence {
            found.push(*key);
            rest = &rest[sequence.len()..];
            continue;
        }
        if *first == 0x1b {
            // A lone escape ends the program. Otherwise it begins a key that has no meaning here.
            if after.is_empty() {
                found.push(Key::End);
            }
            return found;
        }
        found.extend(match first {
            b'q' => Some(Key::End),
            b'p' | b' ' => Some(Key::Hold),
            b'a' => Some(Key::Show(Part::All)),
            b'c' => Some(Key::Show(Part::Classes)),
            b'h' => Some(Key::Show(Part::Hosts)),
            b'd' => Some(Key::Show(Part::Devices)),
            b'f' => Some(Key::Show(Part::Flows)),
            b'u' => Some(Key::Show(Part::Queues)),
            b's' => Some(Key::Show(Part::Services)),
            b'r' => Some(Key::Show(Part::Rules)),
            b'e' => Some(Key::Show(Part::Events)),
            b'o' => Some(Key::Order),
            b'k' => Some(scroll(-1, 0)),
            b'j' => Some(scroll(1, 0)),
            b'g' => Some(Key::Begin),
            _ => None,
        });
        rest = after;
    }
    found
}

/// The terminal, on its alternate screen until this is dropped.
pub struct Screen {
    keys: mpsc::Receiver<Vec<u8>>,
    before: Option<Termios>,
    ends: [Signal; 2],
    resized: Signal,
    held: bool,
    view: View,
    first: usize,
    last: Option<Look>,
    has_colour: bool,
}

impl Screen {
    /// Sets up the terminal. Needs a tokio runtime.
    pub fn open() -> io::Result<Self> {
        let (send, keys) = mpsc::channel(8);
        let mut before = None;
        if io::stdin().is_terminal() {
            let modes = tcgetattr(io::stdin())?;
            let mut single = modes.clone();
            single
                .local_modes
                .remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(io::stdin(), OptionalActions::Now, &single)?;
            before = Some(modes);
            // The thread ends with the process.
            std::thread::spawn(move || {
                let mut bytes = [0; 32];
                while let Ok(read @ 1..) = io::stdin().read(&mut bytes) {
                    if send.blocking_send(bytes[..read].to_vec()).is_err() {
                        return;
                    }
                }
            });
        }
        let screen = Self {
            keys,
            before,
            ends: [
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            ],
            resized: signal(SignalKind::window_change())?,
            held: false,
            view: View::default(),
            first: 0,
            last: None,
            has_colour: output::has_colour(&io::stdout()),
        };
        let mut out = io::stdout().lock();
        out.write_all(b"\x1b[?1049h\x1b[?25l")?;
        out.flush()?;
        Ok(screen)
    }

    /// Waits for the next sample. Returns false if a key or signal ends the program.
    pub async fn until<T>(
        &mut self,
        legend: &Legend,
        tick: impl Future<Output = T>,
    ) -> io::Result<bool> {
        tokio::pin!(tick);
        loop {
            let [interrupted, terminated] = &mut self.ends;
            tokio::select! {
                _ = &mut tick => return Ok(true),
                _ = interrupted.recv() => return Ok(false),
                _ = terminated.recv() => return Ok(false),
                _ = self.resized.recv() => {}
                Some(bytes) = self.keys.recv() => {
                    if !keys(&bytes).into_iter().all(|key| self.press(key)) {
                        return Ok(false);
                    }
                }
            }
            self.redraw(legend)?;
        }
    }

    /// Handles a key. Returns false if it ends the program.
    fn press(&mut self, key: Key) -> bool {
        match key {
            Key::End => return false,
            Key::Hold => self.held = !self.held,
            Key::Show(part) => {
                self.view.part = part;
                self.first = 0;
            }
            Key::Order => self.view.order = Order::next(self.view.order),
            Key::Scroll { lines, pages } => {
                let page = size().1.saturating_sub(3).max(1) as isize;
                self.first = self.first.saturating_add_signed(lines + pages * page);
            }
            Key::Begin => self.first = 0,
        }
        true
    }

    /// Shows a sample, unless the display is paused.
    pub fn draw(&mut self, look: Look, legend: &Legend) -> io::Result<()> {
        if self.held {
            return Ok(());
        }
        self.last = Some(look);
        self.redraw(legend)
    }

    fn redraw(&mut self, legend: &Legend) -> io::Result<()> {
        let Some(look) = &self.last else {
            return Ok(());
        };
        let (width, height) = size();
        let all = lines(look, legend, self.view, width);
        let room = height.saturating_sub(1);
        self.first = self.first.min(all.len().saturating_sub(room));
        let mut text = String::from("\x1b[H");
        for line in all.iter().skip(self.first).take(room) {
            if self.has_colour {
                text.push_str(
                    &BROKEN
                        .iter()
                        .fold(line.clone(), |line, word| output::alarmed(&line, word)),
                );
            } else {
                text.push_str(line);
            }
            text.push_str("\x1b[K\r\n");
        }
        let held = if self.held { "HELD  " } else { "" };
        let more = all.len().saturating_sub(self.first + room);
        let more = if more > 0 {
            format!("{more} more  ")
        } else {
            String::new()
        };
        let keys = cut(&format!("{held}{more}{KEYS}"), width);
        let last = format!("\x1b[J\x1b[{height};1H{keys}");
        text.push_str(&last);
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// Returns the columns and rows of the terminal.
fn size() -> (usize, usize) {
    match terminal_size() {
        Some((Width(width), Height(height))) => (usize::from(width), usize::from(height)),
        None => (80, 24),
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Ignore errors: the terminal may be gone.
        let _ = io::stdout().lock().write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().lock().flush();
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read() {
        assert_eq!(keys(b"q"), [Key::End]);
        assert_eq!(keys(b"\x1b"), [Key::End]);
        assert_eq!(
            keys(b"h\x1b[Bo\x1b[5~"),
            [
                Key::Show(Part::Hosts),
                Key::Scroll { lines: 1, pages: 0 },
                Key::Order,
                Key::Scroll {
                    lines: 0,
                    pages: -1
                },
            ]
        );
        // A key without a meaning, such as F5, does nothing.
        assert_eq!(keys(b"\x1b[15~"), []);
        assert_eq!(keys(b"x\xff"), []);
        assert!(KEYS.len() <= 80);
    }
}
