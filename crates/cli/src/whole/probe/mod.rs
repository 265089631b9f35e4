// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate probe`: measures a real link from its ends.

pub mod device;
mod remote;

use crate::whole::handed;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use weirgate_console::exit::{Failure, Outcome, Status};
use weirgate_console::measurement::{Found, Log, PORT, RunFolder, captured, print_found, resolve};
use weirgate_console::output;
use weirgate_linklayer::{Framing, LinkLayer, ack};
use weirgate_probe::{
    BulkServer, Client, Cut, Direction, FULL, Fit, Icmp, Inference, MeasuredLine, Mtu, Progress,
    Server, largest_packet, measure,
};
use weirgate_units::Rate;

/// The default address of `--serve`.
const EVERYWHERE: &str = "[::]:7887";

/// The number of round trips on the idle line.
const IDLE: u32 = 20;

/// What to measure.
#[derive(Args)]
pub struct Arguments {
    /// The host where `weirgate probe --serve` runs; append `:PORT` for another port.
    #[arg(required_unless_present_any = ["serve", "icmp", "irtt", "iperf3", "bulk", "sequence"])]
    #[arg(conflicts_with_all = ["icmp", "irtt", "iperf3", "bulk"])]
    host: Option<String>,
    /// Serve the probes of others: reply, send and receive for any client. Runs until it is
    /// terminated.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = EVERYWHERE)]
    #[arg(conflicts_with_all = ["host", "json", "icmp", "irtt", "iperf3", "bulk", "write"])]
    serve: Option<SocketAddr>,
    /// Play the traffic and probes of a lab experiment. This machine acts as its hosts, and the
    /// host of --to as its servers. The run's files are stored in the folder of --write, else in a
    /// new one here. `weirgate-lab` does this.
    #[arg(long, value_name = "FILE", requires = "to")]
    #[arg(conflicts_with_all = ["host", "serve", "icmp", "irtt", "iperf3", "bulk"])]
    sequence: Option<PathBuf>,
    /// The host for --sequence, where `weirgate probe --serve` runs.
    #[arg(long, value_name = "HOST[:PORT]", requires = "sequence")]
    to: Option<String>,
    #[command(flatten)]
    remote: remote::Arguments,
    /// Store requests, replies, every echo and the result in a new folder; also the beginning of
    /// every packet, if privileges allow.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Serves other clients, or measures both directions.
pub fn run(arguments: &Arguments) -> Outcome {
    if let Some(address) = arguments.serve {
        return serve(address);
    }
    if arguments.sequence.is_some() {
        return handed::over();
    }
    // Create the folder first, so that nothing is measured that could not be stored.
    let folder = arguments
        .write
        .as_deref()
        .map(RunFolder::make)
        .transpose()?;
    let mut log = Log::default();
    let found = match &arguments.host {
        Some(host) => {
            let address = resolve(host, PORT)?;
            captured(folder.as_ref(), address.ip(), &mut log, |log| {
                ask(host, address, log)
            })
        }
        None => remote::ask(&arguments.remote, folder.as_ref(), &mut log),
    };
    if let Some(folder) = &folder {
        folder.file("log.txt", log.text())?;
    }
    let found = found?;
    if let Some(folder) = folder {
        folder.result(&found.text, &found.json)?;
        if let Some(echoes) = &found.echoes {
            folder.file("echoes.csv", echoes)?;
        }
    }
    print_found(&found, arguments.json)
}

fn serve(address: SocketAddr) -> Outcome {
    let refused = |error| Failure::Input(format!("weirgate: {address}: {error}"));
    let server = Server::bind(address).map_err(refused)?;
    // The bound address has the port that the kernel chose, if port 0 was given.
    let same = server.address()?;
    let bulk = BulkServer::bind(same).map_err(refused)?;
    output::note(&format!("weirgate: answers at {same} (UDP and TCP)"));
    let transfers = std::thread::spawn(move || bulk.run());
    server.run()?;
    // The thread ends with this process.
    drop(transfers);
    Ok(Status::Done)
}

/// The result of the measurement.
struct Measured {
    host: String,
    address: SocketAddr,
    idle: Duration,
    /// The largest packet, if the host answers ICMP echoes and this user may send them.
    mtu: Option<Mtu>,
    up: MeasuredLine,
    down: MeasuredLine,
}

fn ask(host: &str, address: SocketAddr, log: &mut Log) -> Result<Found, Failure> {
    let mut client = Client::greet(address)?;
    let mut idle = Duration::MAX;
    for _ in 0..IDLE {
        idle = idle.min(client.round_trip()?);
    }
    log.note("the largest packet");
    let echoes = Icmp::open(address.ip());
    let mtu = echoes.and_then(|mut echoes| largest_packet(&mut echoes));
    let mut one = |direction| {
        measure(&mut client, direction, &mut |progress| {
            let text = text_of(progress);
            match progress {
                Progress::Sweep(_, done, _) => log.step(&text, done + 1),
                Progress::Look(_) | Progress::Fill(_) => log.note(&text),
            }
        })
    };
    let measured = Measured {
        host: host.to_owned(),
        address,
        idle,
        // Leave out the largest packet if it cannot be determined this way.
        mtu: mtu.ok().flatten(),
        up: one(Direction::Up)?,
        down: one(Direction::Down)?,
    };
    Ok(Found {
        text: measured.text(),
        json: measured.json(),
        echoes: None,
    })
}

fn text_of(progress: Progress) -> String {
    match progress {
        Progress::Look(direction) => format!("{}: how fast is it?", direction.name()),
        Progress::Sweep(direction, done, of) => {
            format!("{}: size {} of {of}", direction.name(), done + 1)
        }
        Progress::Fill(direction) => {
            format!("{}: how much does its buffer hold?", direction.name())
        }
    }
}

/// Returns the grade for the delay that a loaded line adds. The limits are those of the bufferbloat
/// tests on the web (performance.md names them).
pub fn grade(waited: Duration) -> &'static str {
    match waited.as_millis() {
        0..5 => "A+",
        5..30 => "A",
        30..60 => "B",
        60..200 => "C",
        200..400 => "D",
        _ => "F",
    }
}

impl Measured {
    fn waited(&self) -> Duration {
        let longest = self.up.queueing.max(self.down.queueing);
        Duration::from_nanos(longest.as_nanos())
    }

    /// Returns how many full data packets the downstream carries for each acknowledgement on the
    /// upstream (`linklayer::ack`).
    fn asymmetry(&self) -> Option<f64> {
        ack::bandwidth_ratio(self.down.ip_rate, self.up.ip_rate, 1500, 52)
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} ({}): {:.1} ms there and back on the idle line\n",
            self.host,
            self.address,
            self.idle.as_secs_f64() * 1e3
        );
        if let Some(mtu) = self.mtu {
            let _ = writeln!(text, "{}", mtu_words(mtu));
        }
        for (name, direction) in [("up", &self.up), ("down", &self.down)] {
            let _ = write!(text, "\n{name}:\n{}", described(direction));
        }
        let _ = write!(
            text,
            "\nUnder load a packet waits up to {:.0} ms longer: grade {}.\n",
            self.waited().as_secs_f64() * 1e3,
            grade(self.waited())
        );
        if let Some(k) = self.asymmetry() {
            let _ = writeln!(text, "Asymmetry k: {k:.2} (docs/link-layer.md).");
        }
        let _ = write!(text, "\nFor a policy:\n\n{}", self.link());
        text
    }

    /// Returns a policy's link section, as far as it is known.
    ///
    /// A policy has one layer for both directions. It is that of the first direction where it is
    /// known. The wire rate of the other direction is then calculated from its rate of IP packets
    /// with this layer.
    fn link(&self) -> String {
        let directions = [&self.up, &self.down];
        let known = directions.into_iter().find_map(|direction| {
            let fit = direction.layer.layers.first()?;
            Some((direction, *fit))
        });
        let line = |name: &str, direction: &MeasuredLine| {
            let kbit = |rate: Rate| format!("{name} = \"{:.0}kbit\"", rate.as_kbit());
            match (known, direction.layer.rate()) {
                (None, _) if !direction.busy => {
                    format!(
                        "{} # at least: nothing waited on the line",
                        kbit(direction.ip_rate)
                    )
                }
                (None, _) => kbit(direction.ip_rate),
                (Some(_), Some(wire)) => kbit(wire),
                (Some((_, fit)), None) => match on_the_wire(direction.ip_rate, fit) {
                    Some(wire) => {
                        format!("{} # not sure: by the other direction's layer", kbit(wire))
                    }
                    None => format!(
                        "{} # IP bytes: its layer is not known",
                        kbit(direction.ip_rate)
                    ),
                },
            }
        };
        let layer = match known {
            Some((direction, fit)) => format!(
                "{{ overhead = {}, relative-to = \"ip\", framing = \"{}\" }}{}",
                fit.overhead,
                framing(fit.framing),
                match direction.layer.overhead() {
                    Some(_) => "",
                    None => " # the overhead is not sure, see above",
                }
            ),
            None => "\"raw\" # not known: rates count IP bytes".to_owned(),
        };
        format!(
            "[link]\n{}\n{}\n{}\nlayer = {layer}\n",
            device::line(self.address.ip()),
            line("up", &self.up),
            line("down", &self.down)
        )
    }

    fn json(&self) -> Value {
        json!({
            "host": self.host,
            "address": self.address.to_string(),
            "idle_ms": self.idle.as_secs_f64() * 1e3,
            "mtu_bytes": self.mtu.map(|mtu| mtu.bytes),
            "mtu_exact": self.mtu.map(|mtu| mtu.exact),
            "up": values(&self.up),
            "down": values(&self.down),
            "wait_under_load_ms": self.waited().as_secs_f64() * 1e3,
            "grade": grade(self.waited()),
            "asymmetry": self.asymmetry(),
            "link": self.link(),
        })
    }
}

/// Returns the rate on the wire of an IP rate, for packets of [`FULL`] bytes.
fn on_the_wire(ip_rate: Rate, fit: Fit) -> Option<Rate> {
    let layer = LinkLayer::custom(fit.overhead, 0, fit.framing).ok()?;
    let bits = u128::from(ip_rate.as_bits_per_second()) * u128::from(layer.wire_bytes(FULL));
    let bits = u64::try_from(bits / u128::from(FULL)).ok()?;
    Some(Rate::bits_per_second(bits))
}

/// Returns the largest packet as text.
pub fn mtu_words(mtu: Mtu) -> String {
    let least = if mtu.exact { "" } else { "at least " };
    format!("The largest packet has {least}{} bytes.", mtu.bytes)
}

pub fn framing(framing: Framing) -> &'static str {
    match framing {
        Framing::Atm => "atm",
        Framing::Ptm => "ptm",
        Framing::None => "none",
    }
}

fn described(direction: &MeasuredLine) -> String {
    let mut text = String::new();
    let _ = match layer_words(&direction.layer) {
        Some((words, fit)) => writeln!(
            text,
            "  {:.0} kbit/s on the wire, {words}",
            fit.rate.as_kbit()
        ),
        None => writeln!(
            text,
            "  the link layer is not sure: times fit none, or several"
        ),
    };
    let _ = writeln!(
        text,
        "  {}{:.0} kbit/s of IP packets of {FULL} bytes",
        if direction.busy { "" } else { "at least " },
        direction.ip_rate.as_kbit()
    );
    let least = if direction.full { "" } else { "at least " };
    let _ = writeln!(
        text,
        "  its buffer holds {least}{} bytes, {:.0} ms",
        direction.buffer.as_bytes(),
        direction.queueing.as_millis_f64()
    );
    text
}

fn layer_words(layer: &Inference) -> Option<(String, Fit)> {
    let (cut, best) = (layer.cut?, *layer.layers.first()?);
    let words = match (cut, layer.overhead()) {
        (cut, Some(overhead)) => format!("in {cut}, {overhead} bytes beside each IP packet"),
        (cut, None) => {
            let all = layer.layers.iter().map(|fit| fit.overhead);
            let (least, most) = all.fold((best.overhead, best.overhead), |(a, b), one| {
                (a.min(one), b.max(one))
            });
            format!(
                "in {cut}, {} bytes beside each IP packet (not sure: {least} to {most})",
                best.overhead
            )
        }
    };
    Some((words, best))
}

fn values(direction: &MeasuredLine) -> Value {
    let rate = |rate: Rate| rate.as_bits_per_second();
    json!({
        "ip_rate_bits": rate(direction.ip_rate),
        "wire_rate_bits": direction.layer.rate().map(rate),
        "cells": direction.layer.cut.map(|cut| cut == Cut::Cells),
        "overhead_bytes": direction.layer.overhead(),
        "overheads_bytes": direction.layer.layers.iter().map(|fit| fit.overhead).collect::<Vec<_>>(),
        "queueing_ms": direction.queueing.as_millis_f64(),
        "buffer_bytes": direction.buffer.as_bytes(),
        "buffer_full": direction.full,
        "busy": direction.busy,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_units::{Size, Span};

    fn direction(ip_kbit: u64, layers: &[(i32, u64)]) -> MeasuredLine {
        let fit = |(overhead, kbit): &(i32, u64)| Fit {
            framing: Framing::Atm,
            overhead: *overhead,
            rate: Rate::kbit(*kbit),
            chi_squared: 1.0,
        };
        MeasuredLine {
            ip_rate: Rate::kbit(ip_kbit),
            layer: Inference {
                cut: (!layers.is_empty()).then_some(Cut::Cells),
                layers: layers.iter().map(fit).collect(),
            },
            queueing: Span::ZERO,
            buffer: Size::bytes(0),
            full: true,
            busy: true,
        }
    }

    fn link(up: MeasuredLine, down: MeasuredLine) -> String {
        let measured = Measured {
            host: String::from("there"),
            address: SocketAddr::from(([192, 0, 2, 1], 9)),
            idle: Duration::ZERO,
            mtu: None,
            up,
            down,
        };
        measured.link()
    }

    #[test]
    fn a_link_has_one_layer_and_says_what_is_not_sure() {
        let both = link(direction(430, &[(32, 512)]), direction(1680, &[(32, 2000)]));
        assert!(
            both.contains("up = \"512kbit\"\ndown = \"2000kbit\"\n"),
            "{both}"
        );
        assert!(!both.contains("not"), "{both}");
        // 1400 bytes and 32 bytes of overhead take 30 cells, which are 1590 bytes.
        let one = link(direction(440, &[]), direction(1680, &[(32, 2000)]));
        let up = "up = \"500kbit\" # not sure: by the other direction's layer\n";
        assert!(one.contains(up), "{one}");
        assert!(
            one.contains("overhead = 32, relative-to = \"ip\", framing = \"atm\" }\n"),
            "{one}"
        );
        let several = link(
            direction(430, &[(32, 512), (36, 512)]),
            direction(1680, &[]),
        );
        assert!(
            several.contains("} # the overhead is not sure"),
            "{several}"
        );
        let none = link(direction(430, &[]), direction(1680, &[]));
        assert!(
            none.contains("up = \"430kbit\"\ndown = \"1680kbit\"\nlayer = \"raw\""),
            "{none}"
        );
    }
}
