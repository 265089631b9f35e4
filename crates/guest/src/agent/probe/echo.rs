// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ICMP and ICMPv6 echo probes, which the target's kernel answers.

use super::asker::Asker;
use crate::agent::nodes::{address, is_behind_gateway, name};
use crate::agent::session::Session;
use crate::agent::stamp::Stamp;
use crate::agent::traffic::endpoint::{self, Endpoint};
use crate::agent::traffic::options::{self, Transport};
use crate::agent::traffic::payload_of;
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::rc::Rc;
use weirgate_experiment::Probe;

/// ICMP's type of an echo request (RFC 792).
const REQUEST_V4: u8 = 8;
/// ICMPv6's type of an echo request (RFC 4443 section 4.1).
const REQUEST_V6: u8 = 128;
/// Bytes of an echo header: type, code, checksum, identifier, sequence number.
const HEADER: usize = 8;
/// The position of the sequence number in the header.
const SEQ: std::ops::Range<usize> = 6..8;
/// The identifier of the experiment's first probe.
const FIRST_ID: u16 = 0x5700;

/// Starts a probe.
pub fn start(session: &Session, number: u16, flow: u16, probe: &Probe) -> Result<()> {
    let length = HEADER + payload_of(probe.packet, probe.ipv6)?;
    // The identifier distinguishes replies to several probes of one node.
    let id = FIRST_ID.wrapping_add(number).max(1);
    let echo = Transport::Echo;
    let socket = endpoint::bound(&session.nodes, probe.from, echo, probe.ipv6, probe.dscp, id)
        .with_context(|| format!("open an echo socket at {}", name(probe.from)))?;
    let target = SocketAddr::new(address(probe.to, probe.ipv6), 0);
    rustix::net::connect(&socket, &target)
        .with_context(|| format!("find a route to {}", target.ip()))?;
    options::note_arrivals(&socket)?;

    let mut packet = vec![0; length];
    packet[0] = if probe.ipv6 { REQUEST_V6 } else { REQUEST_V4 };
    let asker = Asker::new(session, number, flow, Endpoint::readable(socket)?);
    let listener = Rc::clone(&asker);
    let inside = is_behind_gateway(probe.from);
    session.spawn(format!("probe `{}`: receive", probe.name), async move {
        let mut buffer = vec![0; usize::from(u16::MAX)];
        loop {
            let receiving = listener
                .endpoint
                .receive_stamped(&mut buffer, &listener.clock);
            let (length, at_ns) = receiving.await?;
            let Some((header, payload)) = buffer[..length].split_at_checked(HEADER) else {
                continue;
            };
            let mut seq = [0; 2];
            seq.copy_from_slice(&header[SEQ]);
            listener.answered(u16::from_be_bytes(seq), at_ns);
            if let Some(stamp) = Stamp::read(payload)
                && inside
            {
                listener.recorder.received(stamp.flow, stamp.seq, at_ns);
            }
        }
    });
    let probe = probe.clone();
    session.spawn(format!("probe `{}`: send", probe.name), async move {
        let mark = |packet: &mut [u8], seq: u32| {
            packet[SEQ].copy_from_slice(&(seq as u16).to_be_bytes());
        };
        asker.ask(&probe, packet, HEADER, mark).await
    });
    Ok(())
}
