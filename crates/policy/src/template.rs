// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The default policy as a commented text, which `weirgate try` shows and a new site starts
//! with. `policies/default.toml` is this text for a 2 Mbit/s, 512 kbit/s ADSL line.

use std::fmt::Write;
use weirgate_linklayer::ack::AckReserve;
use weirgate_linklayer::{Framing, LinkLayer};
use weirgate_state::DeviceName;
use weirgate_units::{Rate, Share};

/// The values of a link that the default policy needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The device to the outside.
    pub device: DeviceName,
    /// Devices to the inside; may be empty.
    pub lan: Vec<DeviceName>,
    /// The line's upstream rate.
    pub up: Rate,
    /// The line's downstream rate; `None` shapes only upstream.
    pub down: Option<Rate>,
    /// The link layer.
    pub layer: LinkLayer,
}

/// The largest share of the upstream reserved for ACKs. If the downstream is more than about 60
/// times faster, the formula asks for more. Receivers that merge packets send fewer ACKs than
/// the formula assumes.
const MOST_FOR_ACKS: Share = Share::percent(40);

/// The queue of the interactive class in full packets: enough for a burst, but not for a
/// standing queue.
const INTERACTIVE_PACKETS: u64 = 8;

impl Template {
    /// Returns the policy. It is valid for all rates from 64 kbit/s on.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let full = u64::from(self.layer.wire_bytes(1500));
        writeln!(
            out,
            "# A policy of weirgate: who gets what of a shared link."
        )?;
        writeln!(
            out,
            "# `weirgate check` says what it promises; `weirgate apply` makes it so."
        )?;
        writeln!(out, "version = 1\n\n[link]")?;
        writeln!(out, "device = \"{}\"", self.device)?;
        let lan: Vec<String> = self.lan.iter().map(|lan| format!("\"{lan}\"")).collect();
        match lan.as_slice() {
            [] => {}
            [one] => writeln!(out, "lan = {one}")?,
            several => writeln!(out, "lan = [{}]", several.join(", "))?,
        }
        writeln!(
            out,
            "# The rates of the line itself, as the modem shows them."
        )?;
        writeln!(out, "up = \"{}\"", self.up)?;
        if let Some(down) = self.down {
            writeln!(out, "down = \"{down}\"")?;
        }
        writeln!(out, "# What every packet costs there beyond its own bytes.")?;
        self.write_layer(out)?;
        self.write_ack(out)?;
        out.write_str(INTERACTIVE)?;
        let limit = full * INTERACTIVE_PACKETS;
        writeln!(out, "queue = \"bfifo {limit}\"")?;
        out.write_str(REST)
    }

    fn write_layer(&self, out: &mut String) -> std::fmt::Result {
        let layer = &self.layer;
        let named = LinkLayer::named(layer.name()).is_ok();
        let oam = if layer.oam() { ", oam = true" } else { "" };
        if named && !layer.oam() {
            return writeln!(out, "layer = \"{}\"", layer.name());
        }
        if named {
            return writeln!(out, "layer = {{ name = \"{}\"{oam} }}", layer.name());
        }
        let framing = match layer.framing() {
            Framing::None => "none",
            Framing::Atm => "atm",
            Framing::Ptm => "ptm",
        };
        writeln!(
            out,
            "layer = {{ overhead = {}, relative-to = \"ip\", mpu = {}, framing = \"{framing}\"{oam} }}",
            layer.overhead(),
            layer.mpu(),
        )
    }

    fn write_ack(&self, out: &mut String) -> std::fmt::Result {
        let Some(down) = self.down else {
            return Ok(());
        };
        writeln!(
            out,
            "\n# Acknowledgements of downloads, so that uploads do not slow them."
        )?;
        let wanted = AckReserve::on(&self.layer, 52, 1500, 15)
            .rate(down)
            .unwrap_or_default();
        let most = MOST_FOR_ACKS.of(self.up);
        if wanted > most {
            let kbit = (most.as_bits_per_second() / 1000).max(1);
            writeln!(out, "[ack]\nreserve = \"{}\"", Rate::kbit(kbit))?;
            writeln!(out, "direction = \"up\"")
        } else {
            writeln!(out, "[ack]\nreserve = true")
        }
    }
}

const INTERACTIVE: &str = r#"
# Short exchanges that somebody waits for: names, time, keystrokes, new
# connections, echoes, and whatever is marked for expedited forwarding.
[[class]]
name = "interactive"
share = "20%"
priority = 0
objective = 2
"#;

const REST: &str = r#"
# Everything that no rule names.
[[class]]
name = "normal"
share = "60%"
priority = 4
default = true

# What says of itself that it can wait.
[[class]]
name = "bulk"
share = "20%"
priority = 5

# The first rule that matches decides.
[[rule]]
class = "interactive"
protocol = ["icmp", "icmpv6"]
length = "0-576"

[[rule]]
class = "interactive"
protocol = ["udp", "tcp"]
port = ["53", "123"]

[[rule]]
class = "interactive"
protocol = "tcp"
port = "22"
length = "0-256"

[[rule]]
class = "interactive"
tcp-flags = "syn/syn,fin,rst"

[[rule]]
class = "interactive"
dscp = ["EF", "VA", "CS5", "CS6", "CS7"]

[[rule]]
class = "bulk"
dscp = ["CS1", "LE"]
"#;
