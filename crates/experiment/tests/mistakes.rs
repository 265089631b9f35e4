// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests reports about invalid experiment files: every problem in one run, with its place and a
//! remedy.

use std::fmt::Write as _;
use weirgate_experiment::{CODES, Emulator, Variation, parse};
use weirgate_units::Span;

/// A valid file, which the tests change.
const GOOD: &str = include_str!("good.toml");

fn render(source: &str) -> String {
    let (_, problems) = parse(source);
    let mut text = String::new();
    for problem in problems {
        writeln!(text, "{}\n", problem.render("file.toml", source)).expect("a string takes it");
    }
    text
}

/// Returns the codes found in the valid file with `from` replaced by `to`.
fn codes(from: &str, to: &str) -> Vec<&'static str> {
    assert!(GOOD.contains(from), "`{from}` is not in the good file");
    let source = GOOD.replacen(from, to, 1);
    let (experiment, problems) = parse(&source);
    assert!(experiment.is_none(), "`{to}` is accepted");
    problems.iter().map(|problem| problem.code).collect()
}

#[test]
fn the_good_file_is_good() {
    let (experiment, problems) = parse(GOOD);
    assert_eq!(problems, []);
    let experiment = experiment.unwrap();
    snapshot("the_good_file_is_good", &format!("{experiment:#?}"));
}

#[test]
fn many_mistakes_are_all_reported_at_once() {
    let source = include_str!("mistakes.toml");
    snapshot("many_mistakes_are_all_reported_at_once", &render(source));
}

#[test]
fn each_mistake_in_an_impairment_has_its_code() {
    for (from, to, code) in [
        ("loss = \"0.5%\"", "loss = \"0.5\"", "E107"),
        ("loss = \"0.5%\"", "loss = \"-1%\"", "E107"),
        ("loss = \"0.5%\"", "loss = \"0.00004%\"", "E107"),
        ("part = \"1%\"", "part = \"0.00009%\"", "E107"),
        ("part = \"1%\"", "part = \"101%\"", "E107"),
        ("part = \"1%\", by = \"5ms\"", "by = \"5ms\"", "D002"),
        ("by = \"5ms\"", "by = \"0ms\"", "E107"),
        ("jitter = \"3ms\"", "jitter = \"5s\"", "E107"),
        ("bursts = \"4ms\"", "bursts = 4", "D004"),
        ("half-duplex = true", "half-duplex = 1", "D004"),
    ] {
        assert_eq!(codes(from, to), [code], "{to}");
    }
}

/// The guest opens the port of an entry beyond the line, whichever end sends.
#[test]
fn ports_of_datagrams_are_those_beyond_the_line() {
    let entry = |name: &str, from: &str, to: &str| {
        format!(
            "[[traffic]]\nname = \"{name}\"\nkind = \"udp\"\nfrom = \"{from}\"\nto = \"{to}\"\n\
             port = 4000\ninterval = \"10ms\"\npacket = 100\n"
        )
    };
    let codes = |one: String, other: String| -> Vec<&str> {
        let problems = parse(&format!(
            "version = 1\nname = \"t\"\ntitle = \"T\"\n[topology]\nhosts = 2\nservers = 2\n\
             [topology.line]\nup = {{ rate = \"1mbit\", buffer = \"20kB\" }}\n\
             down = {{ rate = \"1mbit\", buffer = \"20kB\" }}\n[[phase]]\nname = \"a\"\n\
             end = \"20s\"\n{one}{other}[[arm]]\nname = \"a\"\n"
        ));
        problems.1.iter().map(|problem| problem.code).collect()
    };
    let down = |server: &str| entry("down", server, "host1");
    assert_eq!(
        codes(down("server1"), entry("up", "host2", "server1")),
        ["E109"]
    );
    assert!(codes(down("server1"), entry("other", "server2", "host1")).is_empty());
}

#[test]
fn each_mistake_has_its_code() {
    for (from, to, code) in [
        ("version = 1", "version = 2", "E101"),
        ("version = 1", "", "D002"),
        ("name = \"good\"", "name = \"Good one\"", "E102"),
        ("name = \"upload\"\nstart", "name = \"rtt\"\nstart", "E102"),
        (
            "name = \"upload\"\nstart",
            "name = \"alone\"\nstart",
            "E102",
        ),
        ("name = \"up\"", "name = \"down\"", "E102"),
        ("kind = \"access-line\"", "kind = \"acess-line\"", "E103"),
        ("framing = \"atm\"", "framing = \"atn\"", "E103"),
        ("kind = \"udp\"", "kind = \"upd\"", "E103"),
        ("to = \"provider\"", "to = \"provder\"", "E104"),
        ("from = \"host2\"", "from = \"host3\"", "E104"),
        ("commands = [\"gateway: ", "commands = [\"gatewy: ", "E104"),
        ("end = \"40s\"", "end = \"9s\"", "E105"),
        ("start = \"20s\"", "start = \"10s\"", "E105"),
        ("end = \"40s\"", "end = \"24s\"", "E105"),
        ("stop = \"30s\"", "stop = \"3000s\"", "E105"),
        ("stagger = \"1s\"", "stagger = \"25s\"", "E105"),
        ("during = [\"upload\"]", "during = [\"uploads\"]", "E106"),
        ("during = [\"upload\"]", "during = []", "E106"),
        ("interval = \"10ms\"", "interval = \"0s\"", "E107"),
        (
            "interval = \"10ms\"\npacket = 40\npackets = 1000",
            "interval = \"10us\"\npacket = 40\ncount = 9",
            "E107",
        ),
        ("buffer = \"200kB\"", "buffer = \"0 packets\"", "E107"),
        ("rate = \"512kbit\"", "rate = \"0bit\"", "E107"),
        ("rate = \"2000kbit\"", "rate = \"90gbit\"", "E107"),
        ("within-ms = [35]", "within-ms = [0]", "E107"),
        ("packet = 40", "packet = 39", "E108"),
        ("packet = 40", "packet = 1501", "E108"),
        ("port = 5003", "port = 5002", "E109"),
        // QUIC uses ports of UDP.
        ("port = 443", "port = 5003", "E109"),
        (
            "congestion = \"new-reno\"",
            "congestion = \"newreno\"",
            "E103",
        ),
        ("streams = 3", "streams = 101", "D005"),
        ("bytes = \"3MB\"", "bytes = \"0\"", "E107"),
        ("spin = false", "spin = \"no\"", "D004"),
        (
            "policy = \"policies/a.toml\"",
            "policy = \"/etc/passwd\"",
            "E116",
        ),
        (
            "policy = \"policies/a.toml\"",
            "policy = \"../../x.toml\"",
            "E116",
        ),
        ("programs = [\"tc\"]", "", "E114"),
        ("programs = [\"tc\"]", "programs = [\"/sbin/tc\"]", "E114"),
        ("commands = [\"gateway: ", "commands = [\"", "E114"),
        ("rate {rate}", "rate '{rate}", "E114"),
        ("rate {rate}", "rate 1mbit", "E115"),
        ("rate {rate}", "rate {rates}", "E115"),
        ("values = [\"500kbit\", \"510kbit\"]", "values = []", "E115"),
        ("sch_htb.htb_hysteresis=1", "htb_hysteresis", "E117"),
        ("highres=off", "console=tty0", "E117"),
        ("without = [\"voice\"]", "without = [\"voise\"]", "E112"),
        ("to = \"server1\"\nduring", "to = \"host2\"\nduring", "E119"),
        ("arm = \"tree\"", "arm = \"three\"", "E110"),
        ("rtt.interactive.max_ms", "rtt.interactiv.max_ms", "E112"),
        ("rtt.interactive.max_ms", "rtt.interactive.max_s", "E111"),
        ("queue.modem.max_bytes", "cost.wan.instructions", "E111"),
        ("upload.iprate.down", "uplaod.iprate.down", "E106"),
        ("queue.modem.max_bytes", "queue.modum.max_bytes", "E112"),
        ("tolerance = \"2%\"", "", "E113"),
        ("tolerance = \"2%\"", "tolerance = \"2 per cent\"", "E113"),
        ("at-most = 40", "at-most = 40\nat-least = 30", "E113"),
        ("value = \"512 * 8", "value = \"512 * * 8", "E120"),
        (
            "value = \"512 * 8 / upload",
            "value = \"512 * 8 / uplod",
            "E106",
        ),
        ("source = \"a book\"", "", "D002"),
        ("by = \"queue.modem", "by = \"queue.exchange", "E113"),
        ("by = \"queue.modem", "by = \"queue.modum", "E112"),
        ("max_bytes\"\nreason", "max_bytes@tre\"\nreason", "E110"),
        (
            "reason = \"the buffer holds less than the book's\"",
            "",
            "E113",
        ),
        ("seed = 7", "seed = -1", "D005"),
        ("seed = 7", "sed = 7", "D003"),
        ("rate = \"2000kbit\"", "rate = \"20gbit\"", "E107"),
        ("count = 2", "count = 0", "D005"),
        ("delay = \"2ms\"", "delay = \"2\"", "D004"),
    ] {
        let found = codes(from, to);
        assert!(found.contains(&code), "`{to}`: {found:?}, not {code}");
    }
}

#[test]
fn each_mistake_about_mice_the_kit_and_parameters_has_its_code() {
    for (from, to, code) in [
        ("heavy = 1.4", "heavy = 1.0", "E107"),
        ("heavy = 1.4", "heavy = [1.4]", "D006"),
        ("shape = \"{heavy}\"", "shape = 1.4", "D006"),
        ("drain = \"5s\"", "drain = \"5000s\"", "E105"),
        ("sizes = [2000, ", "sizes = [20000, ", "E107"),
        ("sizes = [2000, ", "sizes = [0, ", "E107"),
        ("seeds = 3", "seeds = 0", "D005"),
        (
            "link = \"adsl:pppoa-vc\"",
            "link = \"adsl:pppoa-cv\"",
            "E117",
        ),
        ("rate = \"{speed}\", link", "link", "E117"),
        ("bands=2", "bands", "E117"),
        ("discipline = \"meredt\", ", "", "D002"),
        ("kit = {", "policy = \"policies/a.toml\"\nkit = {", "E110"),
        ("@modem-only", "@modem-onyl", "E110"),
        ("mean_ratio@modem-only", "mean_ratio@", "E120"),
        ("mice:more", "mice:2001", "E112"),
    ] {
        let found = codes(from, to);
        assert!(found.contains(&code), "`{to}`: {found:?}, not {code}");
    }
}

#[test]
fn each_mistake_in_a_loop_has_its_code() {
    for (from, to, code) in [
        ("ask = \"provider\"", "ask = \"provder\"", "E104"),
        ("ask = \"provider\"", "ask = \"host1\"", "E119"),
        ("ask = \"provider\"", "", "D002"),
        ("least = \"100kbit\"", "least = \"401kbit\"", "E107"),
        ("most = \"500kbit\"", "most = \"399kbit\"", "E107"),
        ("least = \"100kbit\", ", "", "D002"),
        (
            "wan root cake bandwidth {kbit}",
            "wan root cake bandwidth 1",
            "E114",
        ),
        (
            "wan root cake bandwidth {kbit}",
            "wan root cake bandwidth {rate}",
            "E114",
        ),
        (
            "\"gateway: tc qdisc change dev wan",
            "\"tc qdisc change dev wan",
            "E114",
        ),
        (
            "\"gateway: tc qdisc change dev wan",
            "\"gateway: nft",
            "E114",
        ),
        (
            "name = \"loop\"",
            "name = \"loop\"\npolicy = \"policies/a.toml\"",
            "E110",
        ),
    ] {
        assert_eq!(codes(from, to), [code], "{to}");
    }
    let sides =
        |line: &&str| !line.starts_with("up = { least") && !line.starts_with("down = { least");
    let none: Vec<&str> = GOOD.lines().filter(sides).collect();
    let codes: Vec<&str> = parse(&none.join("\n"))
        .1
        .iter()
        .map(|one| one.code)
        .collect();
    assert_eq!(codes, ["E110"]);
}

#[test]
fn each_mistake_in_a_change_has_its_code() {
    for (from, to, code) in [
        ("at = \"25s\"", "at = \"0s\"", "E105"),
        ("at = \"30s\"", "at = \"25s\"", "E105"),
        ("at = \"30s\"", "at = \"40s\"", "E105"),
        ("at = \"30s\", policy", "policy", "D002"),
        ("at = \"30s\"", "at = \"soon\"", "D004"),
        (
            "{ at = \"30s\", policy = \"../policies/c.toml\" }",
            "{ at = \"30s\" }",
            "D002",
        ),
        ("\"../policies/c.toml\"", "\"/etc/c.toml\"", "E116"),
        ("metric = \"change.2", "metric = \"change.3", "E112"),
        (
            "metric = \"change.2.writing_ms\"",
            "metric = \"change.2.max_ms\"",
            "E111",
        ),
        (
            "arm = \"tree\"\nmetric = \"change.2",
            "arm = \"modem-only\"\nmetric = \"change.2",
            "E112",
        ),
    ] {
        assert_eq!(codes(from, to), [code], "{to}");
    }
}

/// Returns the valid file with one arm on the kernel's netem, and a line that netem can emulate.
fn with_netem() -> String {
    let text = GOOD.replacen(
        "name = \"tree\"",
        "name = \"tree\"\nemulator = \"netem\"",
        1,
    );
    let impairs = ["half-duplex", "loss", "jitter", "reordering", "bursts"];
    let plain = |line: &&str| !impairs.iter().any(|word| line.starts_with(word));
    text.lines().filter(plain).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_line_varies_by_a_model_or_by_its_steps() {
    let varies = "half-duplex = true\nvaries = \"starlink\"";
    let source = GOOD.replacen("half-duplex = true", varies, 1);
    let (experiment, problems) = parse(&source);
    assert_eq!(problems, []);
    let line = experiment.unwrap().topology.line;
    assert_eq!(line.varies, Some(Variation::Starlink));
    let until = Span::from_secs(20);
    assert!(line.drawn(1, until).then.len() > 100);
    assert_ne!(line.drawn(1, until), line.drawn(2, until));

    let both = format!("{varies}\nthen = [{{ at = \"5s\", up = \"1mbit\" }}]");
    assert_eq!(codes("half-duplex = true", &both), ["E107"]);
    let other = "half-duplex = true\nvaries = \"wimax\"";
    assert_eq!(codes("half-duplex = true", other).len(), 1);
}

#[test]
fn an_oracle_needs_a_policy_that_stays() {
    let with = |arm: &str| format!("{arm}\noracle = \"40ms\"");
    let policy = "about = \"a tree\"\npolicy = \"policies/a.toml\"";
    assert_eq!(codes(policy, &with(policy)), ["E110"]);
    let none = "name = \"modem-only\"";
    assert_eq!(codes(none, &with(none)), ["E110"]);
}

#[test]
fn netem_is_no_line_that_impairs_packets() {
    for field in [
        "half-duplex = true\nup =",
        "varies = \"lte\"\nup =",
        "loss = \"1%\"\n[[phase]]",
        "bursts = \"1ms\"\n[[phase]]",
    ] {
        let (_, at) = field.split_once('\n').unwrap();
        let source = with_netem().replacen(at, field, 1);
        let (experiment, problems) = parse(&source);
        assert!(experiment.is_none(), "{field}");
        let reported = problems.iter().any(|problem| {
            problem.code == "E110"
                && problem
                    .message
                    .ends_with("in the arm `tree` that cannot be")
        });
        assert!(reported, "{field}: {problems:?}");
    }
}

#[test]
fn netem_logs_no_packets() {
    // The second expectation is on both arms.
    let source = with_netem();
    let (experiment, problems) = parse(&source);
    assert!(experiment.is_none());
    let reported: Vec<(&str, &str)> = problems.iter().map(|p| (p.code, &*p.message)).collect();
    assert_eq!(
        reported,
        [
            ("E110", "nothing is captured in the arm `tree`"),
            (
                "E112",
                "the arm `tree` cannot have `upload.iprate.down.mean_kbit`"
            ),
        ]
    );

    let good = source.replace("upload.iprate.down", "upload.goodput.down");
    let (experiment, problems) = parse(&good);
    let codes: Vec<&str> = problems.iter().map(|problem| problem.code).collect();
    assert_eq!(codes, ["E110"], "a warning");
    assert_eq!(experiment.unwrap().arms[1].emulator, Emulator::Netem);
    let quiet = good.replace("capture = true", "capture = false");
    assert_eq!(parse(&quiet).1, []);

    for (from, to) in [
        ("\"rtt.interactive.max_ms", "\"drops.exchange.packets"),
        ("\"rtt.interactive.max_ms", "\"upload.util.up.ratio"),
        (
            "best = \"upload.rtt.interactive.p99_ms",
            "best = \"ahead.interactive.max_packets",
        ),
        ("at-most = 40", "at-most = \"pps.down.mean * 2\""),
    ] {
        assert!(quiet.contains(from), "{from}");
        let (experiment, problems) = parse(&quiet.replacen(from, to, 1));
        assert!(experiment.is_none(), "`{to}` is accepted");
        let refused = problems.iter().any(|problem| {
            problem.code == "E112" && problem.message.contains("`tree` cannot have")
        });
        assert!(refused, "{problems:?}");
    }
    // A queue of the gateway is sampled with any line.
    let sampled = quiet.replacen("\"rtt.interactive.max_ms", "\"drops.wan.packets", 1);
    assert_eq!(parse(&sampled).1, []);
}

#[test]
fn a_calculation_excludes_what_is_run() {
    let head = "version = 1\nname = \"c\"\ntitle = \"c\"\n";
    let figure = "[[figure]]\nname = \"a\"\nformula = \"1 + 1\"\n";
    let (experiment, problems) = parse(&format!("{head}{figure}"));
    assert_eq!(problems, []);
    let metrics = experiment.unwrap().calculate().unwrap();
    assert_eq!(
        metrics.into_iter().collect::<Vec<_>>(),
        [("calculated.a.value".to_owned(), 2.0)]
    );
    let (none, problems) = parse(&format!("{head}{figure}[[arm]]\nname = \"x\"\n"));
    assert!(none.is_none());
    assert_eq!(problems[0].code, "E110");
    let later = figure.replace("1 + 1", "calculated.b.value");
    let (none, problems) = parse(&format!("{head}{later}"));
    assert!(none.is_none());
    assert_eq!(problems[0].code, "E112");
}

#[test]
fn codes_are_unique_and_explained() {
    let mut seen = std::collections::BTreeSet::new();
    for (code, meaning) in CODES {
        assert!(code.len() == 4 && code.starts_with("E1"), "{code}");
        assert!(seen.insert(code), "{code} is there twice");
        assert!(meaning.len() > 10, "{code}");
    }
}

fn snapshot(name: &str, text: &str) {
    weirgate_testing::golden(
        format!("crates/experiment/tests/snapshots/{name}.txt"),
        text,
    );
}
