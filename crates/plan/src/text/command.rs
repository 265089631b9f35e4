// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steps as the closest command lines of ip, tc, ethtool and nft, for readers of a plan. weirgate
//! itself runs none of them.

use crate::action::{Action, QdiscParent};
use crate::model::{kit, rows};
use crate::text::nft::table_name;
use crate::text::script::{self, class_text};
use weirgate_state::{
    CakeAckFilter, CakeFlowMode, CakeFraming, CakeTins, Htb, Qdisc, QdiscKind, Stab,
};

impl Action {
    /// Returns the nearest command line, or several lines for a table. A size table is shown by the
    /// words with which tc creates the same one. If tc cannot create it, only its overhead is
    /// shown.
    pub fn command(&self) -> String {
        match self {
            Self::DeleteTable { netdev, name } => {
                format!("nft delete table {}", table_name(*netdev, name))
            }
            Self::SetTable { table } => {
                format!(
                    "nft -f - <<'END'\n{}END",
                    crate::text::nft::table_text(table)
                )
            }
            Self::ChangeTable { before, after } => {
                format!(
                    "nft -f - <<'END'\n{}END",
                    crate::text::nft::change_text(before, after)
                )
            }
            Self::ForgetDecisions { mask, values } => {
                let each = values
                    .iter()
                    .map(|value| format!("conntrack -D --mark {value:#x}/{mask:#x}"));
                let each: Vec<String> = each.collect();
                format!(
                    "# nearest; weirgate clears the marks only:\n{}",
                    each.join("\n")
                )
            }
            Self::CreateIfb { device } => {
                format!("ip link add {device} type ifb && ip link set {device} alias weirgate up")
            }
            Self::SetHooks {
                device,
                before,
                after,
            } => crate::diff::hooks::command(device, before.as_ref(), after.as_ref()),
            Self::DeleteIfb { device } => format!("ip link del {device}"),
            Self::SetOffloads { device, offloads } => {
                let on = |flag| if flag { "on" } else { "off" };
                let (tso, gso) = (on(offloads.tso), on(offloads.gso));
                let gro = on(offloads.gro);
                let segments = offloads.segments.map_or_else(String::new, |most| {
                    format!(" && ip link set dev {device} gso_max_segs {most}")
                });
                format!("ethtool -K {device} tso {tso} gso {gso} gro {gro}{segments}")
            }
            Self::AddQdisc {
                device,
                parent,
                qdisc,
            } => format!("tc qdisc add dev {device} {}", qdisc_text(*parent, qdisc)),
            Self::ReplaceQdisc {
                device,
                parent,
                qdisc,
            } => format!(
                "tc qdisc replace dev {device} {}",
                qdisc_text(*parent, qdisc)
            ),
            Self::ChangeQdisc {
                device,
                parent,
                qdisc,
            } => format!(
                "tc qdisc change dev {device} {}",
                qdisc_text(*parent, qdisc)
            ),
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
                parent,
                handle,
            } => format!("tc qdisc del dev {device} {parent} handle {handle}"),
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
    script::words(stab).unwrap_or_else(|| {
        // The nearest: what is added to each packet, without framing.
        let length = 1_500;
        let added = i64::from(stab.charge(length)) - i64::from(length);
        format!("stab overhead {added} mpu {}", stab.mpu)
    })
}

fn qdisc_text(parent: QdiscParent, qdisc: &Qdisc) -> String {
    let mut words = vec![format!("{parent} handle {}", qdisc.handle)];
    words.extend(qdisc.stab.as_ref().map(stab_text));
    words.push(kind_text(&qdisc.kind));
    words.join(" ")
}

/// Returns an HTB's settings as tc takes them.
pub(crate) fn htb_text(htb: &Htb) -> String {
    let direct = htb.direct.map(|packets| format!(" direct_qlen {packets}"));
    let direct = direct.unwrap_or_default();
    format!(
        "htb default {:x} r2q {}{direct}",
        htb.default_minor, htb.r2q
    )
}

/// Returns kind and settings of a qdisc as tc takes them, without its classes.
pub(crate) fn kind_text(kind: &QdiscKind) -> String {
    let flag = |set: bool, name: &str, unset: &str| String::from(if set { name } else { unset });
    match kind {
        QdiscKind::Htb(htb) => htb_text(htb),
        QdiscKind::FqCodel(q) => format!(
            "fq_codel limit {} flows {} target {} interval {} quantum {} memory_limit {} {}{}",
            q.limit,
            q.flows,
            q.target,
            q.interval,
            q.quantum,
            q.memory_limit,
            flag(q.ecn, "ecn", "noecn"),
            // Only ECT(1) of the ECN field.
            q.ce_threshold.map_or_else(String::new, |threshold| format!(
                " ce_threshold {threshold} ce_threshold_selector 0x1/0x3"
            ))
        ),
        QdiscKind::Sfq(q) => {
            let quantum = match q.quantum {
                0 => String::new(),
                bytes => format!(" quantum {bytes}"),
            };
            format!("sfq limit {} perturb {}{quantum}", q.limit, q.perturb)
        }
        QdiscKind::Fq(q) => {
            format!("fq limit {} flow_limit {} nopacing", q.limit, q.flow_limit)
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
                CakeFlowMode::SrcHost => "srchost",
                CakeFlowMode::DstHost => "dsthost",
                CakeFlowMode::DualSrcHost => "dual-srchost",
                CakeFlowMode::DualDstHost => "dual-dsthost",
            };
            let tins = match q.tins {
                CakeTins::BestEffort => "besteffort",
                CakeTins::Diffserv4 => "diffserv4",
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
            let wire = q.wire.map_or_else(
                || String::from("raw"),
                |wire| {
                    let framing = match wire.framing {
                        CakeFraming::None => "noatm",
                        CakeFraming::Atm => "atm",
                        CakeFraming::Ptm => "ptm",
                    };
                    format!("{framing} overhead {} mpu {}", wire.overhead, wire.mpu)
                },
            );
            format!(
                "cake {rate} {tins} {mode} {} {acks} {} {} rtt {}us {wire}{memory}",
                flag(q.nat, "nat", "nonat"),
                flag(q.ingress, "ingress", "egress"),
                flag(q.split_gso, "split-gso", "no-split-gso"),
                q.rtt.as_nanos() / 1_000
            )
        }
        QdiscKind::Kit(own) => kit::text(own),
        QdiscKind::Rows(own) => rows::text(own),
        QdiscKind::Listed(listed) => format!("{} as it was listed", listed.name),
        QdiscKind::Other(name) => name.clone(),
    }
}
