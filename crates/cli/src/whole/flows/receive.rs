// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `weirgate flows --policed`: lists the connections and streams that `[receive]` polices, with
//! their measured rates, windows and states. These are the reports of Shah 1999, section 5.3.

use serde::Serialize;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use weirgate_aqm::UdpState;
use weirgate_compile::scheduler;
use weirgate_console::exit::{Failure, Status};
use weirgate_console::output;
use weirgate_keep::Site;
use weirgate_kernel::Received;
use weirgate_policy::{Direction, Policy};
use weirgate_state::State;
use weirgate_units::{Arrange as _, Inserted as _};

/// A policed connection or stream.
#[derive(Debug, Serialize)]
struct HeldFlow {
    /// `tcp` or `udp`.
    protocol: &'static str,
    /// The device on which it arrives.
    device: String,
    /// The local end, as the device sees it.
    receiver: SocketAddr,
    /// The remote end.
    sender: SocketAddr,
    /// The last measured rate: of TCP's payload, or of a stream's IP packets.
    bits_per_second: u64,
    /// `limited` or `protected` for a connection; `okay`, `drop`, `warn` or `kill` for a stream.
    state: &'static str,
    /// The class of the packets that a connection sends.
    class: Option<String>,
    /// The window that was last offered, in bytes, or `None` before the first.
    window: Option<u32>,
    /// The window that the receiver itself would have offered, in bytes.
    offered: Option<u32>,
    /// The bytes of payload that a connection received.
    bytes: Option<u64>,
    /// The datagrams of a stream that were not delivered.
    discarded: Option<u64>,
}

/// The flows to list, and the form of the output.
pub struct Wanted<'a> {
    /// The host to which the list is limited.
    pub host: Option<IpAddr>,
    /// The class to which the list is limited.
    pub class: Option<&'a str>,
    /// The most flows in a table.
    pub most: usize,
    /// Whether the output is JSON.
    pub json: bool,
}

/// Lists the flows.
pub async fn run(
    site: &Site,
    policy: &Policy,
    applied: &State,
    wanted: &Wanted<'_>,
) -> Result<Status, Failure> {
    let numbers: BTreeMap<u32, String> = scheduler(policy, Direction::Up)
        .into_iter()
        .flat_map(|scheduler| scheduler.members)
        .map(|member| (member.id.as_u32(), member.class.name))
        .inserted();
    let mut flows: Vec<HeldFlow> = Vec::new();
    let mut policed = false;
    for (device, place) in &applied.hooks {
        if place.windows.is_none() && place.datagrams.is_none() {
            continue;
        }
        policed = true;
        let received = site.kernel.received(device).await;
        let received = received.map_err(|error| crate::policy::apply::unread(error.into()))?;
        flows.extend(of_device(device.as_str(), &received, &numbers));
    }
    if !policed {
        output::note("the applied policy has no `[receive]` that limits connections or streams");
    }
    flows.retain(|flow| {
        let host = wanted
            .host
            .is_none_or(|host| flow.receiver.ip() == host || flow.sender.ip() == host);
        host && wanted
            .class
            .is_none_or(|class| flow.class.as_deref() == Some(class))
    });
    flows.arrange_by_key(|flow| {
        let rate = std::cmp::Reverse(flow.bits_per_second);
        (rate, flow.receiver, flow.sender, flow.protocol)
    });
    if wanted.json {
        output::data(&serde_json::to_string_pretty(&flows)?)?;
    } else {
        print(&flows, wanted.most)?;
    }
    Ok(Status::Done)
}

fn of_device(device: &str, received: &Received, numbers: &BTreeMap<u32, String>) -> Vec<HeldFlow> {
    let windows = received.windows.iter().flat_map(|(_, all)| all);
    let connections = windows.map(|one| HeldFlow {
        protocol: "tcp",
        device: device.to_owned(),
        receiver: one.receiver,
        sender: one.sender,
        bits_per_second: 8 * one.rate_bytes_s,
        state: if one.spared { "protected" } else { "limited" },
        class: numbers.get(&one.class).cloned(),
        window: (one.window != 0).then_some(one.window),
        offered: (one.window != 0).then_some(one.offered),
        bytes: Some(one.bytes),
        discarded: None,
    });
    let streams = received.streams.iter().flatten().map(|one| HeldFlow {
        protocol: "udp",
        device: device.to_owned(),
        receiver: one.receiver,
        sender: one.sender,
        bits_per_second: 8 * one.rate_bytes_s,
        state: match one.state {
            UdpState::Okay => "okay",
            UdpState::Drop => "drop",
            UdpState::Warn => "warn",
            UdpState::Kill => "kill",
        },
        class: None,
        window: None,
        offered: None,
        bytes: None,
        discarded: Some(one.discarded),
    });
    connections.chain(streams).collect()
}

fn print(flows: &[HeldFlow], most: usize) -> Result<(), Failure> {
    output::data(&format!(
        "{:<5} {:<28} {:<28} {:>9} {:<9} {:>8} {:>8} {:>10} {:>9}  class",
        "proto", "receiver", "sender", "kbit/s", "state", "window", "offered", "kB", "discarded"
    ))?;
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |one| one.to_string());
    for flow in flows.iter().take(most) {
        output::data(&format!(
            "{:<5} {:<28} {:<28} {:>9} {:<9} {:>8} {:>8} {:>10} {:>9}  {}",
            flow.protocol,
            flow.receiver.to_string(),
            flow.sender.to_string(),
            flow.bits_per_second / 1000,
            flow.state,
            number(flow.window.map(u64::from)),
            number(flow.offered.map(u64::from)),
            number(flow.bytes.map(|bytes| bytes / 1000)),
            number(flow.discarded),
            flow.class.as_deref().unwrap_or("-")
        ))?;
    }
    if flows.len() > most {
        output::note(&format!(
            "{} more; `--most {}` lists them all",
            flows.len() - most,
            flows.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weirgate_bpf::{UdpStream, WindowConnection, WindowTotals};

    #[test]
    fn each_is_told_with_its_state() {
        let end = |text: &str| text.parse::<SocketAddr>().unwrap();
        let connection = WindowConnection {
            receiver: end("10.0.0.1:40000"),
            sender: end("192.0.2.1:443"),
            bytes: 5_000,
            rate_bytes_s: 1_000,
            window: 2_896,
            offered: 65_535,
            class: 0x2_0011,
            spared: false,
        };
        let connections = vec![
            connection,
            WindowConnection {
                spared: true,
                ..connection
            },
            WindowConnection {
                window: 0,
                ..connection
            },
        ];
        let stream = UdpStream {
            sender: end("[2001:db8::1]:53"),
            receiver: end("[fd00::1]:5000"),
            state: UdpState::Kill,
            rate_bytes_s: 250_000,
            discarded: 7,
        };
        let received = Received {
            windows: Some((WindowTotals::default(), connections)),
            streams: Some(vec![stream]),
        };
        let numbers = [(0x2_0011, "video".to_owned())].into();
        let flows = of_device("wan", &received, &numbers);
        let states: Vec<&str> = flows.iter().map(|flow| flow.state).collect();
        assert_eq!(states, ["limited", "protected", "limited", "kill"]);
        assert_eq!(flows[0].class.as_deref(), Some("video"));
        assert_eq!((flows[0].window, flows[2].window), (Some(2_896), None));
        assert_eq!(flows[3].discarded, Some(7));
        assert_eq!(flows[3].bits_per_second, 2_000_000);
    }
}
