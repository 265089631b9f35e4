// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Experiments and policies of the campaign, as files for the lab.

use super::list::{Arm, Beside, Cake, CampaignLine, Htb, Runs};
use std::fmt::Write as _;

/// Returns the experiment of a line and a load, with all its arms.
pub fn experiment(Runs { line, load, arms }: &Runs<'_>) -> String {
    let mut text = format!(
        "version = 1\nname = \"campaign-{0}-{1}\"\ntitle = \"{2}: {3}\"\nsettle = \"0s\"\n\n\
         [topology]\nkind = \"access-line\"\nhosts = 2\n\n[topology.line]\nframing = \"{4}\"\n\
         overhead = {5}\nmpu = {6}\n",
        line.name, load.name, line.about, load.about, line.framing, line.overhead, line.mpu,
    );
    let half = load.round_trip / 2;
    for (direction, rate, buffer) in [
        ("up", line.up, "64kB"),
        ("down", line.down, line.buffer.as_str()),
    ] {
        let _ = writeln!(
            text,
            "{direction} = {{ rate = \"{rate}kbit\", delay = \"{half}ms\", buffer = \"{buffer}\" }}"
        );
    }
    if !line.then.is_empty() {
        text.push_str("then = [\n");
        for (at, rate) in &line.then {
            let _ = writeln!(text, "    {{ at = \"{at}s\", down = \"{rate}kbit\" }},");
        }
        text.push_str("]\n");
    }
    let _ = write!(
        text,
        "\n[[phase]]\nname = \"full\"\nstart = \"{}s\"\nend = \"{}s\"\n\n\
         [[probe]]\nname = \"interactive\"\nfrom = \"host2\"\nto = \"provider\"\n\
         interval = \"50ms\"\n\n\
         [[traffic]]\nname = \"down\"\nkind = \"tcp\"\nfrom = \"server1\"\nto = \"host1\"\n\
         count = {}\nstagger = \"20ms\"\ncongestion = \"{}\"\n",
        line.from, line.until, load.downloads, load.congestion,
    );
    for beside in &load.beside {
        text.push_str(&traffic(line, *beside));
    }
    for arm in arms {
        let _ = write!(text, "\n[[arm]]\nname = \"{}\"\n", arm.name);
        if arm.inbound.is_some() {
            let _ = writeln!(
                text,
                "policy = \"policies/{}-{}.toml\"",
                line.name, arm.name
            );
        }
        if let Some(cake) = &arm.cake {
            text.push_str(&commands(&cakes(line, cake)));
        }
        if let Some(htb) = &arm.htb {
            text.push_str(&commands(&classes(line, htb)));
        }
    }
    text
}

fn traffic(line: &CampaignLine, beside: Beside) -> String {
    // Datagrams of 1000 bytes; the interval follows from the rate in kbit/s.
    let datagrams = |name: &str, kbit: u64| {
        let gap = 8_000_000 / kbit.max(1);
        format!(
            "\n[[traffic]]\nname = \"{name}\"\nkind = \"udp\"\nfrom = \"server1\"\nto = \"host2\"\n\
             packet = 1000\ninterval = \"{gap}us\"\n"
        )
    };
    match beside {
        Beside::Web => {
            "\n[[traffic]]\nname = \"mice\"\nkind = \"short-flows\"\nfrom = \"server1\"\n\
             to = \"host2\"\nmean-gap = \"500ms\"\nmean-length = 5000\nshape = 1.4\n\
             congestion = \"cubic\"\n"
                .to_owned()
        }
        Beside::Upload => "\n[[traffic]]\nname = \"up\"\nkind = \"tcp\"\nfrom = \"host1\"\n\
             to = \"server1\"\ncongestion = \"cubic\"\n"
            .to_owned(),
        Beside::Voice => "\n[[traffic]]\nname = \"call\"\nkind = \"voice\"\nfrom = \"host2\"\n\
             to = \"server1\"\ninterval = \"20ms\"\npacket = 200\ndscp = \"EF\"\n"
            .to_owned(),
        Beside::Flood => datagrams("flood", line.down * 5 / 4),
        Beside::Stream => datagrams("stream", line.down / 2),
    }
}

fn commands(all: &[String]) -> String {
    let mut text = "programs = [\"tc\"]\ncommands = [\n".to_owned();
    for one in all {
        let _ = writeln!(text, "    \"gateway: tc {one}\",");
    }
    text + "]\n"
}

fn cakes(line: &CampaignLine, Cake { percent, mode }: &Cake) -> [String; 2] {
    let (up, down) = (line.up * 98 / 100, line.down * percent / 100);
    let layer = &line.cake;
    [
        format!("qdisc add dev wan root cake bandwidth {up}kbit {layer}"),
        format!("qdisc add dev lan root cake bandwidth {down}kbit {mode} {layer}"),
    ]
}

fn classes(line: &CampaignLine, Htb { percent }: &Htb) -> Vec<String> {
    let of = |(device, kbit): (&str, u64)| {
        let rate = kbit * percent / 100;
        [
            format!("qdisc add dev {device} root handle 1: htb default 10"),
            format!(
                "class add dev {device} parent 1: classid 1:10 htb rate {rate}kbit ceil {rate}kbit"
            ),
            format!("qdisc add dev {device} parent 1:10 fq_codel limit 1001 flows 1024 ecn"),
        ]
    };
    [("wan", line.up), ("lan", line.down)]
        .into_iter()
        .flat_map(of)
        .collect()
}

/// Returns the policy of weirgate's arm on a line; `None` for other arms.
pub fn policy(line: &CampaignLine, arm: &Arm) -> Option<String> {
    let mut text = format!(
        "version = 1\n\n[link]\ndevice = \"wan\"\nlan = \"lan\"\nup = \"{}kbit\"\n\
         down = \"{}kbit\"\ninbound = \"{}\"\nlayer = \"{}\"\n",
        line.up,
        line.down,
        arm.inbound.as_ref()?,
        line.layer
    );
    if !arm.margin.is_empty() {
        let _ = writeln!(text, "margin-down = \"{}\"", arm.margin);
    }
    if arm.track {
        let _ = write!(
            text,
            "\n[track]\nreflectors = [\"198.51.100.1\"]\ndown-floor = \"{}kbit\"\n\
             down-ceiling = \"{}kbit\"\n",
            line.down / 10,
            line.down * 3 / 2
        );
    }
    if let Some(rate) = &arm.receive {
        let _ = write!(text, "\n[receive]\nrate = \"{rate}\"\n");
    }
    if arm.bucket {
        let _ = write!(
            text,
            "\n[receive.udp]\nrate = \"{}kbit\"\nmode = \"bucket\"\n",
            line.down / 4
        );
    }
    text.push_str(
        "\n[[class]]\nname = \"interactive\"\nshare = \"30%\"\npriority = 0\n\n\
         [[class]]\nname = \"rest\"\nshare = \"70%\"\npriority = 4\ndefault = true\n\n\
         [[rule]]\nclass = \"interactive\"\nprotocol = [\"icmp\", \"icmpv6\"]\n\n\
         [[rule]]\nclass = \"interactive\"\ndscp = \"EF\"\n",
    );
    Some(text)
}
