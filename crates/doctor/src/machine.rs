// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about the kernel and this process: modules, time, connection tracking.

use crate::finding::{Finding, Question, Severity};
use crate::intent::{counts_connections, named_hosts, needs};
use crate::link::{Carrier, in_words};
use weirgate_policy::Policy;
use weirgate_state::{Ability, Conntrack, Presence, Program};
use weirgate_units::Span;

/// The number of connections that a host is assumed to have open at once: a browser with a few
/// tabs, or a small P2P client.
const PER_HOST: u64 = 256;
/// A finer timer is negligible beside a packet's own time.
const FINE_NS: u64 = 10_000;

pub(crate) fn examine(question: &Question<'_>, carriers: &[Carrier], findings: &mut Vec<Finding>) {
    modules(question, findings);
    refused(question, findings);
    time(question, carriers, findings);
    hysteresis(question, carriers, findings);
    timezone(question, findings);
    if let Some(conntrack) = &question.machine.conntrack {
        accounting(question, conntrack, findings);
        table(question, conntrack, findings);
    }
    forwarding(question, findings);
    if !question.machine.privileges.net_admin {
        findings.push(kernel(
            Severity::Note,
            "privilege",
            "this process lacks CAP_NET_ADMIN in this network namespace".to_owned(),
            "`plan`, `apply`, `remove`, `show` and `keep` are refused".to_owned(),
            "run them as root, or with `setpriv --ambient-caps +net_admin`".to_owned(),
        ));
    }
    let looks = question.policy.is_some_and(Policy::looks_at_payloads);
    if looks && !question.machine.privileges.bpf {
        findings.push(kernel(
            Severity::Note,
            "privilege",
            "this process lacks CAP_BPF".to_owned(),
            "the policy examines payloads: its classifier cannot be loaded, and `apply` is refused"
                .to_owned(),
            "run it as root, or with `setpriv --ambient-caps +net_admin,+bpf`".to_owned(),
        ));
    }
}

fn kernel(
    severity: Severity,
    code: &'static str,
    fact: String,
    why: String,
    remedy: String,
) -> Finding {
    Finding {
        severity,
        code,
        subject: "kernel".to_owned(),
        fact,
        why,
        remedy,
    }
}

fn modules(question: &Question<'_>, findings: &mut Vec<Finding>) {
    let Some((policy, desired)) = question.policy.zip(question.desired) else {
        return;
    };
    let possible = question.possible;
    let indispensable = possible.map(|possible| needs(policy, possible));
    for ability in needs(policy, desired) {
        let presence = question.machine.abilities.get(&ability);
        if presence != Some(&Presence::Absent) {
            continue;
        }
        let what = match ability.module() {
            Some(module) => format!("this kernel has neither {ability} nor the module {module}"),
            None => format!("this kernel has no {ability}"),
        };
        let replaced = indispensable
            .as_ref()
            .is_some_and(|needed| !needed.contains(&ability));
        let (severity, why) = match ability {
            _ if replaced => (
                Severity::Note,
                "the policy works without it: `plan` says what takes its place",
            ),
            Ability::FtpHelper => (
                Severity::Warning,
                "a rule waits for its helper: it matches 0 packets",
            ),
            _ => (
                Severity::Fault,
                "the policy needs it: `apply` is refused, 0 packets are shaped",
            ),
        };
        findings.push(kernel(
            severity,
            "missing-module",
            what,
            why.to_owned(),
            format!(
                "use a kernel with {}: Debian's `linux-image-amd64` is built with \
                 most, OpenWrt has them as packages `kmod-*`",
                ability.option()
            ),
        ));
    }
}

/// Reports receive windows that the policy would have if the kernel's verifier accepted their
/// programs.
fn refused(question: &Question<'_>, findings: &mut Vec<Finding>) {
    let wanted = question.desired.is_some_and(|state| {
        let mut hooks = state.hooks.values();
        hooks.any(|hooks| hooks.has(Program::Windows))
    });
    if wanted && question.windows_refused {
        findings.push(kernel(
            Severity::Note,
            "windows-refused",
            "this kernel refused to load the programs of receive windows".to_owned(),
            "0 receive windows are lowered: `inbound = \"auto\"` uses only the queue".to_owned(),
            "use a newer kernel, or write `inbound = \"ifb\"` or `\"lan\"`".to_owned(),
        ));
    }
}

fn time(question: &Question<'_>, carriers: &[Carrier], findings: &mut Vec<Finding>) {
    let timers = &question.machine.timers;
    let flow = carriers.iter().find_map(|carrier| carrier.leaving);
    if timers.resolution_ns > FINE_NS {
        let late = Span::from_nanos(timers.resolution_ns);
        let figure = flow.map_or_else(String::new, |flow| {
            format!(
                ": up to {} of {} are lost for each packet, which itself takes {}",
                flow.rate.bytes_in(late),
                flow.at(),
                in_words(flow.packets(1))
            )
        });
        findings.push(kernel(
            Severity::Warning,
            "coarse-timer",
            format!("timers fire only every {}", in_words(late)),
            format!("the shaper may send this late, and the line idles{figure}"),
            "boot without `highres=off` and `nohz=off`; the kernel needs CONFIG_HIGH_RES_TIMERS"
                .to_owned(),
        ));
    }
    let source = timers.clocksource.as_deref().unwrap_or_default();
    let (severity, cost) = match source {
        "jiffies" | "refined-jiffies" => (
            Severity::Warning,
            "time advances only with the tick, 1 to 10 ms: tokens come in bursts".to_owned(),
        ),
        "acpi_pm" | "hpet" => (
            Severity::Note,
            "reading the clock takes about 1 us, and every packet needs several readings"
                .to_owned(),
        ),
        _ => return,
    };
    findings.push(kernel(
        severity,
        "slow-clock",
        format!("the clock source is {source}"),
        cost,
        "find `tsc` or the hypervisor's own in \
         `/sys/devices/system/clocksource/clocksource0/available_clocksource`, and write it into \
         `current_clocksource` there"
            .to_owned(),
    ));
}

fn hysteresis(question: &Question<'_>, carriers: &[Carrier], findings: &mut Vec<Finding>) {
    if question.machine.htb_hysteresis != Some(true) {
        return;
    }
    let flow = carriers.iter().find_map(|carrier| carrier.leaving);
    let figure = flow.map_or_else(String::new, |flow| {
        format!(
            "; at {}, each additional packet adds {} of delay",
            flow.at(),
            in_words(flow.packets(1))
        )
    });
    findings.push(kernel(
        Severity::Warning,
        "htb-hysteresis",
        "`htb_hysteresis` of sch_htb is 1".to_owned(),
        format!(
            "a class may overdraw its bucket by a whole burst, so that it sends up to two \
             bursts at once{figure}"
        ),
        "`echo 0 > /sys/module/sch_htb/parameters/htb_hysteresis`, and `options sch_htb \
         htb_hysteresis=0` in /etc/modprobe.d"
            .to_owned(),
    ));
}

/// Reports schedules by day if the kernel's clock is not UTC: the kernel counts days by its own
/// clock, but hours by UTC.
fn timezone(question: &Question<'_>, findings: &mut Vec<Finding>) {
    let west = question.machine.minutes_west;
    let by_day = |policy: &Policy| {
        let schedules = policy.rules.iter().filter_map(|rule| rule.during.as_ref());
        let mut seasons = schedules.flat_map(|schedule| &schedule.seasons);
        seasons.any(|season| season.spans.iter().any(|span| span.days.len() < 7))
    };
    if west == 0 || !question.policy.is_some_and(by_day) {
        return;
    }
    let side = if west < 0 { "ahead of" } else { "behind" };
    findings.push(kernel(
        Severity::Warning,
        "kernel-timezone",
        format!(
            "the kernel's own clock is {} minutes {side} UTC",
            west.unsigned_abs()
        ),
        format!(
            "it counts days by that clock and hours by UTC, so a schedule's days begin {} minutes \
             {}",
            west.unsigned_abs(),
            if west < 0 { "early" } else { "late" },
        ),
        "set the hardware clock to UTC (`timedatectl set-local-rtc 0`) and restart".to_owned(),
    ));
}

fn accounting(question: &Question<'_>, conntrack: &Conntrack, findings: &mut Vec<Finding>) {
    if conntrack.accounting {
        return;
    }
    let fact = "connection tracking does not count bytes and packets (nf_conntrack_acct is 0)";
    let remedy = "`sysctl -w net.netfilter.nf_conntrack_acct=1`, and the same line in \
                  /etc/sysctl.d/ for the next start";
    let line = question.policy.and_then(counts_connections);
    let (severity, why) = match (line, question.applied) {
        (Some(line), Some(_)) => (
            Severity::Warning,
            format!(
                "the rule of line {line} tests how much a connection has carried: for \
                 connections begun since, this stays 0"
            ),
        ),
        (Some(line), None) => (
            Severity::Note,
            format!(
                "the rule of line {line} tests how much a connection has carried. `apply` makes \
                 the kernel count, but the {} open connections stay at 0",
                conntrack.count
            ),
        ),
        (None, _) => (
            Severity::Note,
            "listings of connections show 0 bytes and no rates".to_owned(),
        ),
    };
    findings.push(kernel(
        severity,
        "accounting-off",
        fact.to_owned(),
        why,
        remedy.to_owned(),
    ));
}

fn table(question: &Question<'_>, conntrack: &Conntrack, findings: &mut Vec<Finding>) {
    let Conntrack { count, max, .. } = *conntrack;
    if max == 0 {
        return;
    }
    let (count, max) = (u64::from(count), u64::from(max));
    let remedy = |wanted: u64| {
        format!(
            "`sysctl -w net.netfilter.nf_conntrack_max={wanted}`, and the same line in \
             /etc/sysctl.d/; an entry takes some 320 bytes"
        )
    };
    if count * 10 >= max * 8 {
        findings.push(kernel(
            Severity::Warning,
            "table-small",
            format!("{count} of {max} entries for connections are in use"),
            format!(
                "when the last {} are in use, the kernel drops the first packet of every new \
                 connection",
                max.saturating_sub(count)
            ),
            remedy((count * 2).next_power_of_two()),
        ));
        return;
    }
    let hosts = question.policy.map_or(0, named_hosts);
    if hosts * PER_HOST > max {
        findings.push(kernel(
            Severity::Note,
            "table-small",
            format!("there are {max} entries for connections, and the policy names {hosts} hosts"),
            format!(
                "this is {} for each; with {PER_HOST} each, {} are needed, and connections \
                 beyond are dropped",
                max / hosts,
                hosts * PER_HOST
            ),
            remedy((hosts * PER_HOST).next_power_of_two()),
        ));
    }
}

fn forwarding(question: &Question<'_>, findings: &mut Vec<Finding>) {
    let Some(policy) = question.policy else {
        return;
    };
    let machine = question.machine;
    let wan = machine.devices.get(&policy.link.device.value);
    // A bridge forwards on its own, and a policy for one machine needs no forwarding.
    if policy.link.lan.is_empty() || wan.is_none_or(|wan| wan.master.is_some()) {
        return;
    }
    for (version, found, key) in [
        ("IPv4", machine.forwarding_v4, "net.ipv4.ip_forward"),
        (
            "IPv6",
            machine.forwarding_v6,
            "net.ipv6.conf.all.forwarding",
        ),
    ] {
        if found != Some(false) {
            continue;
        }
        findings.push(kernel(
            if version == "IPv4" {
                Severity::Warning
            } else {
                Severity::Note
            },
            if version == "IPv4" {
                "forwarding-off"
            } else {
                "forwarding6-off"
            },
            format!("{version} packets are not forwarded ({key} is 0)"),
            format!("0 {version} packets of the hosts behind `lan` reach the link"),
            format!("`sysctl -w {key}=1`, and the same line in /etc/sysctl.d/"),
        ));
    }
}
