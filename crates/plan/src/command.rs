// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steps as the command lines of ip, tc, ethtool and nft that come nearest,
//! for the reader of a plan. weirgate itself runs none of them.

use crate::action::{Action, Place, table_name};
use crate::settle;
use weirgate_state::{CakeAckFilter, CakeFlowMode, HtbClass, Qdisc, QdiscKind, Stab};
use weirgate_units::{Rate, Span};

impl Action {
    /// The nearest command line; several lines for a table. A size table is
    /// shown by its numbers only, because tc cannot take a table of wire sizes.
    pub fn command(&self) -> String {
        match self {
            Self::DeleteTable { netdev, name } => {
                format!("nft delete table {}", table_name(*netdev, name))
            }
            Self::SetTable { table } => {
                format!("nft -f - <<'END'\n{}END", crate::nft::table_text(table))
            }
            Self::CreateIfb { device } => {
                format!("ip link add {device} type ifb && ip link set {device} alias weirgate up")
            }
            Self::DeleteIfb { device } => format!("ip link del {device}"),
            Self::SetOffloads { device, offloads } => {
                let on = |flag| if flag { "on" } else { "off" };
                format!(
                    "ethtool -K {device} tso {} gso {} gro {}",
                    on(offloads.tso),
                    on(offloads.gso),
                    on(offloads.gro)
                )
            }
            Self::AddQdisc {
                device,
                place,
                qdisc,
            } => format!("tc qdisc add dev {device} {}", qdisc_text(*place, qdisc)),
            Self::ReplaceRoot { device, qdisc } => format!(
                "tc qdisc replace dev {device} {}",
                qdisc_text(Place::Root, qdisc)
            ),
            Self::ChangeQdisc {
                device,
                place,
                qdisc,
            } => format!("tc qdisc change dev {device} {}", qdisc_text(*place, qdisc)),
            Self::ChangeStab {
                device,
                handle,
                stab,
            } => format!(
                "tc qdisc change dev {device} root handle {handle}{}",
                stab.as_ref()
                    .map(|stab| format!(" {}", stab_text(stab)))
                    .unwrap_or_default()
            ),
            Self::DeleteQdisc {
                device,
                place,
                handle,
            } => format!("tc qdisc del dev {device} {place} handle {handle}"),
            Self::AddClass { device, class } => {
                format!("tc class add dev {device} {}", class_text(class))
            }
            Self::ChangeClass { device, class } => {
                format!("tc class change dev {device} {}", class_text(class))
            }
            Self::DeleteClass { device, id } => format!("tc class del dev {device} classid {id}"),
        }
    }
}

fn stab_text(stab: &Stab) -> String {
    format!(
        "stab overhead {} mpu {} mtu {} tsize {}",
        stab.overhead,
        stab.mpu,
        stab.mtu,
        stab.data.len()
    )
}

fn class_text(class: &HtbClass) -> String {
    format!(
        "parent {} classid {} htb rate {} ceil {} burst {}b cburst {}b prio {} quantum {}",
        class.parent,
        class.id,
        class.rate,
        class.ceil,
        bucket(class.rate, class.buffer),
        bucket(class.ceil, class.cbuffer),
        class.prio,
        class.quantum
    )
}

/// A bucket in bytes, at least one: tc takes no empty one.
fn bucket(rate: Rate, span: Span) -> u64 {
    let nanos = u128::from(settle::ticks(span).as_nanos());
    let bytes = (u128::from(rate.as_bits_per_second()) * nanos).div_ceil(8_000_000_000);
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

fn qdisc_text(place: Place, qdisc: &Qdisc) -> String {
    let mut words = vec![format!("{place} handle {}", qdisc.handle)];
    words.extend(qdisc.stab.as_ref().map(stab_text));
    words.push(kind_text(&qdisc.kind));
    words.join(" ")
}

/// Kind and settings of a qdisc as tc takes them, without its classes.
pub(crate) fn kind_text(kind: &QdiscKind) -> String {
    let flag = |set: bool, name: &str, unset: &str| String::from(if set { name } else { unset });
    match kind {
        QdiscKind::Htb(htb) => format!("htb default {:x} r2q {}", htb.default_minor, htb.r2q),
        QdiscKind::FqCodel(q) => format!(
            "fq_codel limit {} flows {} target {} interval {} quantum {} memory_limit {} {}",
            q.limit,
            q.flows,
            q.target,
            q.interval,
            q.quantum,
            q.memory_limit,
            flag(q.ecn, "ecn", "noecn")
        ),
        QdiscKind::Sfq(q) => {
            let quantum = match q.quantum {
                0 => String::new(),
                bytes => format!(" quantum {bytes}"),
            };
            format!("sfq limit {} perturb {}{quantum}", q.limit, q.perturb)
        }
        QdiscKind::Pfifo(q) => format!("pfifo limit {}", q.limit),
        QdiscKind::Bfifo(q) => format!("bfifo limit {}", q.limit.as_bytes()),
        QdiscKind::Red(q) => format!(
            "red limit {} min {} max {} avpkt {} bandwidth {} probability {}{}{}",
            q.limit.as_bytes(),
            q.min.as_bytes(),
            q.max.as_bytes(),
            q.avpkt,
            q.bandwidth,
            f64::from(q.probability_millionths) / 1e6,
            flag(q.ecn, " ecn", ""),
            flag(q.adaptive, " adaptive", "")
        ),
        QdiscKind::Cake(q) => {
            let rate = match q.bandwidth {
                Some(rate) => format!("bandwidth {rate}"),
                None => String::from("unlimited"),
            };
            let mode = match q.flow_mode {
                CakeFlowMode::FlowBlind => "flowblind",
                CakeFlowMode::Flows => "flows",
                CakeFlowMode::Triple => "triple-isolate",
                CakeFlowMode::DualSrcHost => "dual-srchost",
                CakeFlowMode::DualDstHost => "dual-dsthost",
            };
            let acks = match q.ack_filter {
                CakeAckFilter::No => "no-ack-filter",
                CakeAckFilter::Filter => "ack-filter",
                CakeAckFilter::Aggressive => "ack-filter-aggressive",
            };
            let memory = match q.memory_limit {
                0 => String::new(),
                bytes => format!(" memlimit {bytes}"),
            };
            format!(
                "cake {rate} besteffort {mode} {} {acks} {} {} rtt {}us raw{memory}",
                flag(q.nat, "nat", "nonat"),
                flag(q.ingress, "ingress", "egress"),
                flag(q.split_gso, "split-gso", "no-split-gso"),
                q.rtt.as_nanos() / 1_000
            )
        }
        QdiscKind::Other(name) => name.clone(),
    }
}
