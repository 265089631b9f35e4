// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate probe` with hosts that do not run weirgate: ICMP or irtt for round trips, and iperf3
//! or a file on a web server to fill the line.

use crate::whole::probe::{device, framing, grade, mtu_words};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use weirgate_console::exit::Failure;
use weirgate_console::measurement::RunFolder;
use weirgate_console::measurement::{Found, resolve};
use weirgate_console::measurement::{Log, captured};
use weirgate_linklayer::{LinkLayer, ack};
use weirgate_probe::{
    Bulk, Cut, Direction, Echoes, Fit, IPERF3_PORT, IRTT_PORT, Icmp, Inference, Irtt, Load, Loaded,
    Reflector, Remote, Stage, remote,
};
use weirgate_units::{ParseError, Rate, Size, Span};

/// The length of IPv4 and TCP headers with the usual timestamps (RFC 7323 section 3.2), in bytes.
/// IPv6 headers are 20 bytes longer.
const HEADERS: u32 = 52;
/// The assumed largest packet if it is not known, in bytes.
const USUAL: u32 = 1500;

/// The hosts to measure with.
#[derive(clap::Args)]
#[group(skip)]
pub struct Arguments {
    /// Measure round trips, the largest packet and cells with a host that answers ICMP echo
    /// requests.
    #[arg(long, value_name = "HOST", conflicts_with = "irtt")]
    icmp: Option<String>,
    /// Measure round trips with an irtt server.
    #[arg(long, value_name = "HOST[:PORT]")]
    irtt: Option<String>,
    /// Fill the line in both directions with an iperf3 server; it also gets the ICMP echo requests
    /// unless another host is named.
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "bulk")]
    iperf3: Option<String>,
    /// Fill the line downstream with a large file from a web server; echo requests as with
    /// --iperf3.
    #[arg(long, value_name = "URL", value_parser = Bulk::parse)]
    bulk: Option<Bulk>,
    /// Trust the authorities of this file (PEM) for https:// instead of the system's.
    #[arg(long, value_name = "FILE", requires = "bulk")]
    bulk_ca: Option<PathBuf>,
    /// How long to fill the line in each direction.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = length)]
    time: Duration,
}

fn length(text: &str) -> Result<Duration, String> {
    let span: Span = text
        .parse()
        .map_err(|error: ParseError| error.to_string())?;
    let length = Duration::from_nanos(span.as_nanos());
    if length < Duration::from_secs(2) || length > Duration::from_mins(5) {
        return Err(String::from("from 2s to 5min"));
    }
    Ok(length)
}

/// Measures with the hosts of the arguments.
pub fn ask(
    arguments: &Arguments,
    folder: Option<&RunFolder>,
    log: &mut Log,
) -> Result<Found, Failure> {
    let wrong = |error: weirgate_probe::RemoteError| Failure::Input(format!("weirgate: {error}"));
    let load = match (&arguments.iperf3, &arguments.bulk) {
        (Some(host), _) => Some(Load::Iperf3(resolve(host, IPERF3_PORT)?)),
        (None, Some(bulk)) => Some(Load::Bulk(match &arguments.bulk_ca {
            Some(file) => bulk.clone().trusting(file.clone()),
            None => bulk.clone(),
        })),
        (None, None) => None,
    };
    let (host, mut reflector): (SocketAddr, Box<dyn Reflector + Send>) =
        match (&arguments.irtt, &arguments.icmp, &load) {
            (Some(host), ..) => {
                let server = resolve(host, IRTT_PORT)?;
                (server, Box::new(Irtt::open(server).map_err(wrong)?))
            }
            (None, Some(host), _) => icmp(resolve(host, 0)?)?,
            (None, None, Some(Load::Iperf3(server))) => icmp(*server)?,
            (None, None, Some(Load::Bulk(bulk))) => icmp(resolve(bulk.host(), 0)?)?,
            (None, None, None) => {
                return Err(Failure::Input(String::from("weirgate: name a host")));
            }
        };
    let found = captured(folder, host.ip(), log, |log| {
        remote(
            &mut *reflector,
            load.as_ref(),
            arguments.time,
            &mut |stage| log.note(&text_of(stage)),
        )
    });
    let measured = Measured {
        host,
        found: found.map_err(wrong)?,
    };
    Ok(Found {
        text: measured.text(),
        json: measured.json(),
        echoes: Some(measured.echoes()),
    })
}

fn icmp(host: SocketAddr) -> Result<(SocketAddr, Box<dyn Reflector + Send>), Failure> {
    let wrong = |error| Failure::Input(format!("weirgate: {error}"));
    let reflector = Icmp::open(host.ip()).map_err(wrong)?;
    Ok((host, Box::new(reflector)))
}

fn text_of(stage: Stage) -> String {
    match stage {
        Stage::Idle => String::from("round trips on the idle line"),
        Stage::Mtu => String::from("the largest packet"),
        Stage::Sizes(done, of) => {
            format!("round trips by size: round {} of {of}", done + 1)
        }
        Stage::Load(direction) => format!("{}: the line is filled", direction.name()),
    }
}

struct Measured {
    host: SocketAddr,
    found: Remote,
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl Measured {
    fn mtu(&self) -> u32 {
        self.found.mtu.map_or(USUAL, |mtu| mtu.bytes.min(USUAL))
    }

    /// Returns the rate of full IP packets for the rate of TCP payload.
    fn ip_rate(&self, loaded: &Loaded) -> Rate {
        let headers = HEADERS + if self.host.is_ipv4() { 0 } else { 20 };
        let mtu = f64::from(self.mtu());
        let data = loaded.transfer.rate().as_bits_per_second() as f64;
        let bits = data * mtu / (mtu - f64::from(headers));
        Rate::bits_per_second(bits.round() as u64)
    }

    /// Returns the layer with cells, if the round trips show that it is the only one.
    fn cells(&self) -> Option<Fit> {
        let layer = self.found.layer.as_ref()?;
        let alone = layer.cut == Some(Cut::Cells) && layer.overhead().is_some();
        layer.layers.first().copied().filter(|_| alone)
    }

    fn waited(&self) -> Option<Duration> {
        let loaded = self.found.up.iter().chain(&self.found.down);
        loaded.filter_map(|one| one.waited(&self.found.idle)).max()
    }

    fn text(&self) -> String {
        let mut text = format!("{}: ", self.host.ip());
        let idle = &self.found.idle;
        if let Some((least, high)) = idle.least().zip(idle.high()) {
            let _ = writeln!(
                text,
                "{:.1} ms there and back on the idle line, 95 of 100 within {:.1} ms, {} of {} lost",
                ms(least),
                ms(high),
                idle.lost(),
                idle.all.len()
            );
        }
        if let Some(mtu) = self.found.mtu {
            let _ = writeln!(text, "{}", mtu_words(mtu));
        }
        if let Some(layer) = &self.found.layer {
            let _ = writeln!(text, "{}", layer_words(layer));
        }
        for (name, loaded) in [("down", &self.found.down), ("up", &self.found.up)] {
            let Some(loaded) = loaded else { continue };
            let _ = writeln!(
                text,
                "\n{name}:\n  {:.0} kbit/s of TCP data, {:.0} of IP packets of {} bytes",
                loaded.transfer.rate().as_kbit(),
                self.ip_rate(loaded).as_kbit(),
                self.mtu()
            );
            match (loaded.waited(idle), loaded.buffer(idle)) {
                (Some(waited), Some(buffer)) => {
                    let _ = writeln!(
                        text,
                        "  packets waited {:.0} ms (95 of 100 no longer), {} of {} echoes lost; its \
                         buffer holds at least {} bytes",
                        ms(waited),
                        loaded.echoes.lost(),
                        loaded.echoes.all.len(),
                        buffer.as_bytes()
                    );
                }
                _ => text.push_str("  no echo came back then\n"),
            }
        }
        if let Some(waited) = self.waited() {
            let _ = writeln!(
                text,
                "\nUnder load a packet waits {:.0} ms longer: grade {}.",
                ms(waited),
                grade(waited)
            );
        }
        if let Some(k) = self.asymmetry() {
            let _ = writeln!(text, "Asymmetry k: {k:.2} (docs/link-layer.md).");
        }
        if let Some(link) = self.link() {
            let _ = write!(text, "\nFor a policy:\n\n{link}");
        }
        text
    }

    fn asymmetry(&self) -> Option<f64> {
        let (up, down) = self.found.up.as_ref().zip(self.found.down.as_ref())?;
        ack::bandwidth_ratio(self.ip_rate(down), self.ip_rate(up), 1500, HEADERS)
    }

    /// Returns a policy's link section, if a rate is known.
    fn link(&self) -> Option<String> {
        if self.found.up.is_none() && self.found.down.is_none() {
            return None;
        }
        let cells = self.cells().and_then(|fit| {
            let layer = LinkLayer::custom(fit.overhead, 0, fit.framing).ok()?;
            Some((fit, layer))
        });
        let rate = |loaded: &Option<Loaded>| match loaded {
            None => String::from("\"?\" # not measured"),
            Some(loaded) => {
                let wire = cells.as_ref().map_or(1.0, |(_, layer)| {
                    f64::from(layer.wire_bytes(self.mtu())) / f64::from(self.mtu())
                });
                format!("\"{:.0}kbit\"", self.ip_rate(loaded).as_kbit() * wire)
            }
        };
        let layer = match &cells {
            Some((fit, _)) => format!(
                "{{ overhead = {}, relative-to = \"ip\", framing = \"{}\" }} # or 48 bytes more",
                fit.overhead,
                framing(fit.framing)
            ),
            None => String::from("\"raw\" # not known: rates count IP bytes"),
        };
        Some(format!(
            "[link]\n{}\nup = {}\ndown = {}\nlayer = {layer}\n",
            device::line(self.host.ip()),
            rate(&self.found.up),
            rate(&self.found.down)
        ))
    }

    fn json(&self) -> Value {
        let found = &self.found;
        let time = |time: Option<Duration>| time.map(ms);
        let direction = |loaded: &Option<Loaded>| {
            loaded.as_ref().map(|loaded| {
                json!({
                    "data_rate_bits": loaded.transfer.rate().as_bits_per_second(),
                    "ip_rate_bits": self.ip_rate(loaded).as_bits_per_second(),
                    "echoes": loaded.echoes.all.len(),
                    "echoes_lost": loaded.echoes.lost(),
                    "middle_ms": time(loaded.echoes.middle()),
                    "high_ms": time(loaded.echoes.high()),
                    "queueing_ms": time(loaded.waited(&found.idle)),
                    "buffer_bytes_at_least": loaded.buffer(&found.idle).map(Size::as_bytes),
                })
            })
        };
        json!({
            "host": self.host.ip().to_string(),
            "idle_ms": time(found.idle.least()),
            "idle_middle_ms": time(found.idle.middle()),
            "idle_high_ms": time(found.idle.high()),
            "idle_lost": found.idle.lost(),
            "mtu_bytes": found.mtu.map(|mtu| mtu.bytes),
            "mtu_exact": found.mtu.map(|mtu| mtu.exact),
            "cells": found.layer.as_ref().and_then(|layer| layer.cut).map(|cut| cut == Cut::Cells),
            "overhead_bytes_modulo_48": self.cells().map(|fit| fit.overhead),
            "up": direction(&found.up),
            "down": direction(&found.down),
            "wait_under_load_ms": time(self.waited()),
            "grade": self.waited().map(grade),
            "asymmetry": self.asymmetry(),
            "link": self.link(),
        })
    }

    /// Returns every echo as CSV: the part of the measurement, the time, and the round trip.
    fn echoes(&self) -> String {
        let mut text = String::from("part,at_ms,round_trip_ms\r\n");
        let mut add = |part: &str, echoes: &Echoes| {
            for (at, took) in &echoes.all {
                let took = took.map_or(String::new(), |took| format!("{:.3}", ms(took)));
                let _ = write!(text, "{part},{:.3},{took}\r\n", ms(*at));
            }
        };
        add("idle", &self.found.idle);
        for (direction, loaded) in [
            (Direction::Down, &self.found.down),
            (Direction::Up, &self.found.up),
        ] {
            if let Some(loaded) = loaded {
                add(direction.name(), &loaded.echoes);
            }
        }
        text
    }
}

fn layer_words(layer: &Inference) -> String {
    match (layer.cut, layer.overhead()) {
        (None, _) => String::from("Whether the line sends ATM cells is not sure."),
        (Some(Cut::Bytes), _) => String::from(
            "The line sends no ATM cells; how many bytes a packet takes beside itself, round trips \
             do not tell.",
        ),
        (Some(Cut::Cells), Some(overhead)) => format!(
            "The line sends ATM cells, with {overhead} bytes beside each IP packet, or 48 more."
        ),
        (Some(Cut::Cells), None) => String::from(
            "The line sends ATM cells; how many bytes a packet takes beside itself is not sure.",
        ),
    }
}
