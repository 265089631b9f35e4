// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writing a discipline outside of this project's tree: the result works, and every kind of mistake
//! is refused with its line.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn weirgate(folder: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weirgate"))
        .current_dir(folder)
        .arg("aqm")
        .args(line.split_whitespace())
        .output()
        .expect("weirgate")
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(&[&out[..], &err[..]].concat()).into_owned()
}

/// Creates a new discipline `mean`.
fn fresh() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let output = weirgate(folder.path(), "new mean");
    assert!(output.status.success(), "{}", text(&output));
    folder
}

/// Changes the source; returns the line at which the change begins.
pub fn change(folder: &Path, from: &str, to: &str) -> usize {
    let path = folder.join("mean/mean.c");
    let source = fs::read_to_string(&path).expect("a source");
    let at = source.find(from).unwrap_or_else(|| panic!("no {from}"));
    fs::write(&path, source.replacen(from, to, 1)).expect("a source");
    source[..at].lines().count() + 1
}

/// Creates a discipline `mean`, changes and builds it; returns its file, under another name in a
/// folder.
pub fn built(folder: &Path, name: &str, edit: impl FnOnce(&Path)) -> String {
    let work = fresh();
    edit(work.path());
    let output = weirgate(work.path(), "build mean");
    assert!(output.status.success(), "{}", text(&output));
    let place = folder.join(name);
    fs::copy(work.path().join("mean/mean.so"), &place).expect("a file");
    place.to_string_lossy().into_owned()
}

/// The line that decides about every arrival.
const DECIDES: &str = "\tif (at->packets > s->longest_packets)";

fn refused(folder: &Path, line: &str, expected: &[&str]) {
    let output = weirgate(folder, line);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for part in expected {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

#[test]
fn a_new_discipline_works() {
    let folder = fresh();
    let output = weirgate(folder.path(), "test mean");
    let report = text(&output);
    assert!(output.status.success(), "{report}");
    assert!(report.contains("first.script: as expected"), "{report}");
    let again = weirgate(folder.path(), "new mean");
    assert_eq!(again.status.code(), Some(2), "nothing is overwritten");
    let output = weirgate(folder.path(), "verify mean --lab");
    let report = text(&output);
    assert!(output.status.success(), "{report}");
    // The programs of the qdisc, and the one for arriving packets.
    for program in ["qdisc_enqueue", "inbound"] {
        assert!(report.contains(program), "no {program}: {report}");
    }
    assert!(report.contains("verified"), "{report}");
}

#[test]
fn a_wrong_expectation_is_told_with_its_line() {
    let folder = fresh();
    change(
        folder.path(),
        "v->limit_packets ||",
        "v->limit_packets + 1 ||",
    );
    let output = weirgate(folder.path(), "test mean");
    let report = text(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(
        report.contains("first.script:12: keep, not drop limit"),
        "{report}"
    );
}

#[test]
fn an_unbounded_loop_is_refused() {
    let folder = fresh();
    let code = format!("\twhile (at->packets)\n\t\ts->longest_packets++;\n{DECIDES}");
    let line = change(folder.path(), DECIDES, &code);
    let place = format!("mean.c:{line}: `while`");
    refused(folder.path(), "test mean", &[&place, "AQM_LOOP"]);
    refused(folder.path(), "verify mean", &[&place, "AQM_LOOP"]);
}

/// The loop is bounded, but a packet must not take so long.
pub fn a_long_loop_is_refused() {
    let folder = fresh();
    let code = format!(
        "\tu64 odd = packet->len;\n\tu32 i;\n\n\tAQM_LOOP (i, 1000000)\n\t\todd = odd * 3 + i;\n\
         \ts->longest_packets += odd & 1;\n{DECIDES}"
    );
    let line = change(folder.path(), DECIDES, &code) + 3;
    let places = [line, line + 1].map(|line| format!("mean.c:{line}: the verifier refuses it"));
    let output = weirgate(folder.path(), "verify mean --lab");
    let report = text(&output);
    assert_eq!(output.status.code(), Some(2), "{report}");
    assert!(
        places.iter().any(|place| report.contains(place)),
        "{report}"
    );
    assert!(
        report.contains("too large") || report.contains("too complex"),
        "{report}"
    );
}

/// The host owns packets; the only leak of a discipline is to keep them for ever.
#[test]
fn a_leak_is_refused() {
    let folder = fresh();
    change(
        folder.path(),
        "AQM_DISCIPLINE(mean, MEAN, 1,",
        "AQM_DISCIPLINE(mean, MEAN, 2,",
    );
    change(
        folder.path(),
        "return aqm_pass(0);",
        "return aqm_pass(packet->len & 1);",
    );
    let source = fs::read_to_string(folder.path().join("mean/mean.c")).expect("a source");
    let at = source.find("AQM_ONE_FIFO").expect("the queue");
    let line = source[..at].lines().count() + 1;
    fs::write(
        folder.path().join("mean/first.script"),
        "0ms arrive 101\n1ms arrive 100\n2ms depart = send\n",
    )
    .expect("a script");
    let place = format!("mean.c:{line}: mean_choose()");
    refused(
        folder.path(),
        "test mean",
        &[&place, "keeps packets for ever"],
    );
}

#[test]
fn an_access_out_of_range_is_refused() {
    let folder = fresh();
    let code = format!(
        "\tu64 seen[4] = {{ 0 }};\n\n\ts->longest_packets += seen[packet->len & 7];\n{DECIDES}"
    );
    let line = change(folder.path(), DECIDES, &code) + 2;
    let place = format!("mean.c:{line}");
    refused(folder.path(), "test mean", &[&place, "out of bounds"]);
    // In memory that the verifier knows: the state, in a map.
    let folder = fresh();
    let code = format!("\tu64 *all = (u64 *)s;\n\n\tall[packet->len] = 1;\n{DECIDES}");
    let line = change(folder.path(), DECIDES, &code) + 2;
    let place = format!("mean.c:{line}: the verifier refuses it");
    refused(folder.path(), "verify mean --lab", &[&place]);
}

/// The parts of an instance are adjacent in the kernel, where an overflow of one may write into
/// another. Sanitizers have red zones between them.
#[test]
fn the_parts_of_an_instance_are_apart() {
    for (code, what) in [
        ("((u64 *)v)[40]++;", "use-after-poison"),
        ("((u64 *)v)[-1]++;", "use-after-poison"),
        ("((u64 *)s)[2] = 5;", "use-after-poison"),
    ] {
        let folder = fresh();
        let line = change(folder.path(), DECIDES, &format!("\t{code}\n{DECIDES}"));
        // With a symbolizer a column follows.
        let place = format!("mean.c:{line}:");
        refused(folder.path(), "test mean", &[&place, what]);
    }
    for (code, what) in [
        ("((u64 *)p)[0] = 1;", "writes to the parameters"),
        (
            "((struct aqm_packet *)packet)->len = 1;",
            "writes to the packet",
        ),
        (
            "if (at->packets > 3)\n\t\treturn aqm_verdict(77, 0, 0);",
            "neither pass, mark nor drop",
        ),
    ] {
        let folder = fresh();
        change(folder.path(), DECIDES, &format!("\t{code}\n{DECIDES}"));
        refused(folder.path(), "test mean", &["mean_arrive()", what]);
    }
}

#[test]
fn memory_of_its_own_and_other_files_are_refused() {
    let folder = fresh();
    let code = format!("\tstatic u64 seen;\n\n\tseen++;\n{DECIDES}");
    let line = change(folder.path(), DECIDES, &code);
    let place = format!("mean.c:{line}: `static`");
    refused(folder.path(), "test mean", &[&place, "all instances"]);
    let folder = fresh();
    let line = change(
        folder.path(),
        "#include \"fixed.h\"",
        "#include \"fixed.h\"\n#include \"more.h\"\nu64 seen;",
    );
    let places = [line + 1, line + 2].map(|line| format!("mean.c:{line}: "));
    refused(folder.path(), "verify mean", &[&places[0], &places[1]]);
}

/// The bound is visible and never reached. The compiler must not remove this loop.
#[test]
fn a_loop_that_begins_again_is_refused() {
    let folder = fresh();
    let code = format!("\tu32 i;\n\n\tAQM_LOOP (i, 10)\n\t\ti = 0;\n{DECIDES}");
    let line = change(folder.path(), DECIDES, &code) + 3;
    let place = format!("mean.c:{line}: `i`: a loop that sets its own counter");
    refused(folder.path(), "test mean", &[&place]);
    refused(folder.path(), "verify mean --lab", &[&place]);
}

/// The same loop, hidden by a macro.
pub fn a_hidden_loop_that_begins_again_is_refused() {
    let folder = fresh();
    let code = format!(
        "#define AGAIN(i) i = packet->len & 3\n\tu32 i;\n\n\tAQM_LOOP (i, 10)\n\t\tAGAIN(i);\n{DECIDES}"
    );
    change(folder.path(), DECIDES, &code);
    let began = Instant::now();
    let output = weirgate(folder.path(), "test mean");
    let report = text(&output);
    assert_eq!(output.status.code(), Some(2), "{report}");
    // The line is reported only if the report's stack goes beyond the signal frame.
    assert!(
        report.contains("mean.c") && report.contains("mean_arrive() does not come to an end"),
        "{report}"
    );
    assert!(
        began.elapsed() < Duration::from_mins(1),
        "{:?}",
        began.elapsed()
    );
    refused(
        folder.path(),
        "verify mean --lab",
        &["the verifier refuses it"],
    );
}

/// The kernel's verifier takes minutes for these, and then reports another line.
#[test]
fn a_bound_that_changes_and_a_call_of_itself_are_refused() {
    let folder = fresh();
    let code =
        format!("\tu32 i;\n\n\tAQM_LOOP (i, at->bytes)\n\t\ts->longest_packets++;\n{DECIDES}");
    let line = change(folder.path(), DECIDES, &code) + 2;
    let place = format!("mean.c:{line}: `at->bytes`: a bound that changes");
    refused(folder.path(), "verify mean --lab", &[&place]);
    let folder = fresh();
    let code = "AQM_FN u64 mean_down(u64 n)\n{\n\treturn n ? mean_down(n - 1) : 0;\n}\n\n\
                AQM_FN void mean_setup";
    let line = change(folder.path(), "AQM_FN void mean_setup", code);
    let place = format!("mean.c:{line}: `mean_down`: a function that calls itself");
    refused(folder.path(), "verify mean --lab", &[&place]);
}

/// Fields that the kernel leaves 0, because the discipline did not request them.
pub fn what_is_not_asked_for_decides_nothing() {
    for (what, code) in [
        ("random", "at->random > 2000000000"),
        ("flow", "packet->flow & 32"),
        ("ecn", "aqm_can_mark(packet)"),
    ] {
        let folder = fresh();
        let code = format!("\tif ({code})\n\t\treturn aqm_drop(AQM_EARLY_REASON);\n{DECIDES}");
        change(folder.path(), DECIDES, &code);
        let output = weirgate(folder.path(), "test mean");
        let report = text(&output);
        assert_eq!(output.status.code(), Some(1), "{report}");
        assert!(
            report.contains(&format!("`{what}`, which it does not ask for")),
            "{report}"
        );
        let asked = "AQM_NEEDS_RANDOM | AQM_NEEDS_FLOW | AQM_NEEDS_ECN";
        change(folder.path(), "AQM_NEEDS_NOTHING", asked);
        fs::remove_file(folder.path().join("mean/first.script")).expect("a script");
        let output = weirgate(folder.path(), "test mean");
        assert!(output.status.success(), "{}", text(&output));
    }
}

/// Turns the last functions of `mean` into its own, with this code for a departing packet.
fn departs(folder: &Path, code: &str) {
    let own = format!(
        "AQM_FN u32 mean_choose(struct mean_vars *v, const struct mean_params *p,\n\t\t\
         const struct aqm_context *at)\n{{\n\treturn 0;\n}}\n\n\
         AQM_FN struct aqm_verdict mean_depart(struct mean_vars *v,\n\t\
         const struct mean_params *p, struct mean_stats *s, u32 queue,\n\t\
         const struct aqm_packet *packet, const struct aqm_context *at)\n{{\n\
         \tif (!packet)\n\t\treturn aqm_verdict(AQM_EMPTY, AQM_NONE_REASON, 0);\n\
         {code}\treturn aqm_pass(0);\n}}\n\nAQM_NO_EVICTION(mean)"
    );
    change(folder, "AQM_ONE_FIFO(mean)", &own);
}

/// Each of the two random inputs is requested by itself.
#[test]
fn random_bits_are_asked_for_by_the_call() {
    let folder = fresh();
    departs(
        folder.path(),
        "\tif (at->random > 2000000000)\n\t\treturn aqm_drop(AQM_EARLY_REASON);\n",
    );
    fs::remove_file(folder.path().join("mean/first.script")).expect("a script");
    change(folder.path(), "AQM_NEEDS_NOTHING", "AQM_NEEDS_RANDOM");
    let output = weirgate(folder.path(), "test mean");
    let report = text(&output);
    assert_eq!(output.status.code(), Some(1), "{report}");
    assert!(report.contains("`random`, which it does not"), "{report}");
    change(folder.path(), "AQM_NEEDS_RANDOM", "AQM_NEEDS_RANDOM_OUT");
    let output = weirgate(folder.path(), "test mean");
    assert!(output.status.success(), "{}", text(&output));
}

/// At ingress too, where the driver gives the same packets.
#[test]
fn a_departure_has_random_bits_on_every_host() {
    let folder = fresh();
    // What the driver refuses: a mark of a packet whose sender understands none.
    let code = "\tif (!at->random)\n\t\treturn aqm_mark(AQM_EARLY_REASON, 0);\n";
    departs(folder.path(), code);
    fs::remove_file(folder.path().join("mean/first.script")).expect("a script");
    let asked = "AQM_NEEDS_RANDOM_OUT | AQM_NEEDS_ECN";
    change(folder.path(), "AQM_NEEDS_NOTHING", asked);
    let output = weirgate(folder.path(), "test mean");
    assert!(output.status.success(), "{}", text(&output));
}

/// A mark of a Not-ECT packet, on arrival and at departure.
#[test]
fn a_mark_that_nobody_understands_is_refused() {
    let folder = fresh();
    let code = format!("\tif (packet->len > 1000)\n\t\treturn aqm_mark(1, 0);\n{DECIDES}");
    change(folder.path(), DECIDES, &code);
    change(folder.path(), "AQM_NEEDS_NOTHING", "AQM_NEEDS_ECN");
    fs::remove_file(folder.path().join("mean/first.script")).expect("a script");
    let what = "mean_arrive() marks a packet whose sender does not understand marks";
    refused(folder.path(), "test mean", &[what]);
    // Marks only where they are possible.
    let asked = "if (packet->len > 1000 && aqm_can_mark(packet))";
    change(folder.path(), "if (packet->len > 1000)", asked);
    let output = weirgate(folder.path(), "test mean");
    assert!(output.status.success(), "{}", text(&output));
    // A discipline that does not request the field cannot know it.
    change(folder.path(), "AQM_NEEDS_ECN", "AQM_NEEDS_NOTHING");
    change(folder.path(), " && aqm_can_mark(packet)", "");
    refused(folder.path(), "test mean", &[what]);
}

/// Verdicts that depend on an address, which differs in each run.
#[test]
fn verdicts_are_the_same_when_it_runs_again() {
    let folder = fresh();
    let code =
        format!("\tif ((u64)v >> 12 & 1)\n\t\treturn aqm_drop(AQM_EARLY_REASON);\n{DECIDES}");
    change(folder.path(), DECIDES, &code);
    fs::remove_file(folder.path().join("mean/first.script")).expect("a script");
    // Both runs agree with a probability of one half.
    let found = (0..16).any(|_| text(&weirgate(folder.path(), "test mean")).contains("addresses"));
    assert!(found);
}

/// A link's rate may be unknown, which is 0. Code that the kernel's compiler refuses is refused
/// before anything runs.
#[test]
fn a_rate_may_be_unknown_and_a_division_signed() {
    let folder = fresh();
    let line = change(
        folder.path(),
        "\tv->limit_packets = aqm_min(asked",
        "\tv->limit_bytes = 1000000 / link->rate_bytes_s;\n\tv->limit_packets = aqm_min(asked",
    );
    let place = format!("mean.c:{line}");
    refused(folder.path(), "test mean", &[&place, "division by zero"]);
    refused(
        folder.path(),
        "fuzz mean --seconds 10",
        &[&place, "division by zero"],
    );
    let folder = fresh();
    let code =
        format!("\ts->longest_packets = (u64)((s64)at->bytes / (s64)packet->len);\n{DECIDES}");
    change(folder.path(), DECIDES, &code);
    refused(folder.path(), "test mean", &["mean.c", "division"]);
}

#[test]
fn a_float_is_refused() {
    let folder = fresh();
    let code = format!("\ts->longest_packets = 0.9 * at->packets;\n{DECIDES}");
    let line = change(folder.path(), DECIDES, &code);
    let place = format!("mean.c:{line}: `0.9`: a floating-point number");
    refused(folder.path(), "test mean", &[&place]);
    refused(folder.path(), "verify mean", &[&place]);
}

#[test]
fn a_missing_compiler_is_named() {
    let folder = fresh();
    let output = Command::new(env!("CARGO_BIN_EXE_weirgate"))
        .current_dir(folder.path())
        .args(["aqm", "test", "mean"])
        .env("PATH", "/nowhere")
        .output()
        .expect("weirgate");
    let report = text(&output);
    assert!(!output.status.success());
    assert!(report.contains("install Debian's clang-19"), "{report}");
}

#[test]
fn the_fuzzer_finds_what_is_planted_and_what_is_wrong() {
    let folder = fresh();
    let output = weirgate(folder.path(), "fuzz mean --seconds 5 --floor 60");
    let report = text(&output);
    assert!(output.status.success(), "{report}");
    assert!(report.contains("found the planted mistake"), "{report}");
    let code = format!(
        "\tu64 seen[4] = {{ 0 }};\n\n\tif (packet->len > 4000 && at->packets > 3)\n\
         \t\ts->longest_packets += seen[at->packets & 7];\n{DECIDES}"
    );
    let line = change(folder.path(), DECIDES, &code) + 3;
    let place = format!("mean.c:{line}");
    refused(
        folder.path(),
        "fuzz mean --seconds 20",
        &[&place, "out of bounds"],
    );
}

#[test]
fn a_script_for_the_shaper_has_classes() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "link 1mbit\nclass 1:1,queue=red\nclass 1:2,priority=1\n\
                  0ms arrive 100 = keep\n0ms arrive 100 class 1:1 = keep\n\
                  0ms depart = send 1:2\n";
    fs::write(folder.path().join("own.script"), script).expect("a script");
    let output = weirgate(folder.path(), "test own.script");
    assert_eq!(output.status.code(), Some(1));
    let report = text(&output);
    assert!(
        report.contains("own.script:6: send 1:1, not send 1:2"),
        "{report}"
    );
}

#[test]
fn names_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["Mean", "9x", "a-b", "averylongname", "../x"] {
        let output = weirgate(folder.path(), &format!("new {name}"));
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
}

#[test]
fn ones_own_is_no_class_s_queue() {
    let folder = fresh();
    let line = "load mean lo --rate 1mbit --class 1:10";
    refused(
        folder.path(),
        line,
        &["`mean`", "class's queue", "docs/aqm.md"],
    );
    let line = "load droptail lo --rate 1mbit --class 1:10,queue=mean";
    refused(folder.path(), line, &["`mean`", "class's queue", "--rate"]);
}
