// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `weirgate top` draws: lines that need no colour, and a terminal that
//! shows them until a key ends it.

use std::cmp::Reverse;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use terminal_size::{Height, Width, terminal_size};
use tokio::sync::mpsc;
use weirgate_watch::{Change, Legend, Number, Promise, Sort, Step};

/// The lines of a look, at most `width` columns each.
pub fn lines(step: &Step, legend: &Legend, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (way, device, gate) in &legend.links {
        let of = |one: &&Change| {
            one.object.sort == Sort::Class
                && one.object.label("device") == device
                && !one.object.label("direction").is_empty()
        };
        let classes = step.changes.iter().filter(of);
        let sent: i64 = classes
            .filter_map(|one| one.value(Number::ClassSentBytes))
            .sum();
        let rate = bits(sent, step.interval);
        let share = if *gate > 0 {
            rate * 100.0 / *gate as f64
        } else {
            0.0
        };
        lines.push(format!(
            "{way:<5} {device}: {} of {} ({share:.0} %)",
            human(rate),
            human(*gate as f64)
        ));
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(format!(
        "{:<22} {:>9} {:>8} {:>7} {:>7} {:>8} {:>9}",
        "class", "rate", "pkt/s", "drop/s", "waits", "wait ms", "promise"
    ));
    let classes = step
        .changes
        .iter()
        .filter(|one| one.object.sort == Sort::Class);
    // What stands above the policy's classes repeats their bytes.
    let named = |one: &&Change| !one.object.label("direction").is_empty();
    let any = classes.clone().any(|one| named(&one));
    for one in classes.filter(|one| !any || named(one)) {
        lines.push(class_line(one, step));
    }
    let devices = step
        .changes
        .iter()
        .filter(|one| one.object.sort == Sort::Device);
    let mut devices: Vec<&Change> = devices.collect();
    devices.sort_by_key(|one| {
        let number = |number| one.value(number).unwrap_or(0);
        Reverse(number(Number::DeviceSentBytes) + number(Number::DeviceReceivedBytes))
    });
    lines.push(String::new());
    lines.push(format!(
        "{:<22} {:>12} {:>12} {:>9}",
        "device", "received", "sent", "drop/s"
    ));
    for one in devices.into_iter().take(8) {
        let rate = |number| human(bits(one.value(number).unwrap_or(0), step.interval));
        let drops = one.value(Number::DeviceSentDrops).unwrap_or(0);
        lines.push(format!(
            "{:<22} {:>12} {:>12} {:>9.0}",
            cut(one.object.label("device"), 22),
            rate(Number::DeviceReceivedBytes),
            rate(Number::DeviceSentBytes),
            second(drops, step.interval)
        ));
    }
    for one in step
        .changes
        .iter()
        .filter(|one| one.object.sort == Sort::Probe)
    {
        let rtt = one.value(Number::ProbeRtt);
        let rtt = rtt.map_or(String::from("no answer"), |rtt| {
            format!("{:.1} ms", rtt as f64 / 1000.0)
        });
        let number = |number| one.object.number(number).unwrap_or(0);
        lines.push(format!(
            "probe {} to {}: {rtt}, {} of {} lost",
            cut(one.object.label("probe"), 20),
            one.object.label("host"),
            number(Number::ProbeLost),
            number(Number::ProbeSent)
        ));
    }
    lines.into_iter().map(|line| cut(&line, width)).collect()
}

fn class_line(one: &Change, step: &Step) -> String {
    let object = &one.object;
    let name = match object.label("direction") {
        "" => format!("{} {}", object.label("device"), object.label("class")),
        way => format!("{way} {}", object.label("class")),
    };
    let number = |number| one.value(number);
    let known = |text: Option<String>| text.unwrap_or_else(|| String::from("-"));
    let wait = number(Number::ClassWait).map(|wait| format!("{:.1}", wait as f64 / 1000.0));
    let promise = match one.promise {
        None => "",
        Some(Promise::Idle) => "idle",
        Some(Promise::Kept) => "kept",
        Some(Promise::Rate) => "RATE LOW",
        Some(Promise::Wait) => "WAIT LONG",
        Some(Promise::Unknown) => "?",
    };
    let by_second = |value: Option<i64>| {
        known(value.map(|value| format!("{:.0}", second(value, step.interval))))
    };
    format!(
        "{:<22} {:>9} {:>8} {:>7} {:>7} {:>8} {:>9}",
        cut(&name, 22),
        known(number(Number::ClassSentBytes).map(|sent| human(bits(sent, step.interval)))),
        by_second(number(Number::ClassSentPackets)),
        by_second(number(Number::ClassDrops)),
        known(number(Number::ClassBacklogPackets).map(|packets| packets.to_string())),
        known(wait),
        promise
    )
}

fn second(value: i64, interval: i64) -> f64 {
    value as f64 * 1000.0 / interval.max(1) as f64
}

fn bits(bytes: i64, interval: i64) -> f64 {
    second(bytes, interval) * 8.0
}

/// Bits by the second, in at most nine columns.
fn human(rate: f64) -> String {
    match rate {
        rate if rate >= 1e9 => format!("{:.2} Gbit", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.2} Mbit", rate / 1e6),
        rate if rate >= 1e3 => format!("{:.1} kbit", rate / 1e3),
        rate => format!("{rate:.0} bit"),
    }
}

fn cut(text: &str, width: usize) -> String {
    // Names are the kernel's and the policy's: nothing of them may steer the
    // terminal.
    let plain = text
        .chars()
        .map(|letter| if letter.is_control() { '?' } else { letter });
    plain.take(width).collect()
}

/// The terminal, on its second screen until this is dropped.
pub struct Screen {
    keys: mpsc::Receiver<u8>,
    held: bool,
}

impl Screen {
    /// Takes the terminal.
    pub fn open() -> io::Result<Self> {
        let (send, keys) = mpsc::channel(8);
        if io::stdin().is_terminal() {
            // A line at a time: `q` and Enter. Ends with the process.
            std::thread::spawn(move || {
                let mut byte = [0];
                while matches!(io::stdin().read(&mut byte), Ok(1)) {
                    if send.blocking_send(byte[0]).is_err() {
                        return;
                    }
                }
            });
        }
        let mut out = io::stdout().lock();
        out.write_all(b"\x1b[?1049h\x1b[?25l")?;
        out.flush()?;
        Ok(Self { keys, held: false })
    }

    /// Waits for the next look; false where a key ends it.
    pub async fn until<T>(&mut self, tick: impl Future<Output = T>) -> io::Result<bool> {
        tokio::pin!(tick);
        loop {
            tokio::select! {
                _ = &mut tick => return Ok(true),
                end = tokio::signal::ctrl_c() => return end.map(|()| false),
                Some(key) = self.keys.recv() => match key {
                    b'q' => return Ok(false),
                    b'p' => self.held = !self.held,
                    _ => {}
                },
            }
        }
    }

    /// Shows a look, unless it is held.
    pub fn draw(&mut self, step: &Step, legend: &Legend) -> io::Result<()> {
        if self.held {
            return Ok(());
        }
        let (width, height) = match terminal_size() {
            Some((Width(width), Height(height))) => (usize::from(width), usize::from(height)),
            None => (80, 24),
        };
        let mut text = String::from("\x1b[H");
        for line in lines(step, legend, width)
            .iter()
            .take(height.saturating_sub(2))
        {
            text.push_str(line);
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J\r\nq Enter: end   p Enter: hold");
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = io::stdout().lock().write_all(b"\x1b[?25h\x1b[?1049l");
    }
}
