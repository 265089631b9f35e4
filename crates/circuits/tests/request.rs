// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of requests for one circuit.

use weirgate_circuits::{Named, Request, Wanted};
use weirgate_units::Rate;

#[test]
fn a_request_says_what_the_options_say() {
    let line = r#"{"circuit":"7","do":"add","device":"eth0","addresses":"192.0.2.1, 192.0.2.0/28",
        "session":"77:02:00:5e:10:00:01","vlan":"100.20","mac":"","down-max":"2.5mbit",
        "up-max":"500kbit","suspended":"yes","plan":null}"#;
    let Request::Add(wanted) = Request::read(line).unwrap() else {
        panic!("another request");
    };
    let asked = wanted.asked().unwrap();
    assert_eq!(asked.rates[2], Some(Rate::kbit(2_500)));
    assert_eq!(asked.suspended, Some(true));
    let keys = asked
        .keys
        .each_ref()
        .map(|keys| keys.as_ref().map(Vec::len));
    assert_eq!(keys, [Some(2), Some(1), Some(1), Some(0)]);
    let one = asked.of("7", None, &[]).unwrap();
    assert_eq!(one.circuit.most.up, Rate::kbit(500));
    let named = Named {
        device: "eth0".to_owned(),
        circuit: "7".to_owned(),
    };
    let line = r#"{"do":"remove","device":"eth0","circuit":"7"}"#;
    assert_eq!(Request::read(line), Ok(Request::Remove(named)));
}

#[test]
fn what_is_wrong_with_a_request_is_said() {
    let nested = format!(
        r#"{{"do":"show","device":"a","circuit":{}"#,
        "[".repeat(60_000)
    );
    for (line, part) in [
        ("", "EOF"),
        ("7", "7"),
        (r#"{"do":"add"}"#, "device"),
        (r#"{"do":"apply","device":"a","circuit":"b"}"#, "apply"),
        (r#"{"device":"a","circuit":"b"}"#, "do"),
        (r#"{"do":"add","device":"a","circuit":7}"#, "string"),
        (
            r#"{"do":"add","device":"a","circuit":"7","down-max":"fast"}"#,
            "fast",
        ),
        (
            r#"{"do":"add","device":"a","circuit":"7","down_max":"1mbit"}"#,
            "down_max",
        ),
        (
            r#"{"do":"add","device":"a","circuit":"7","circuit":"8"}"#,
            "duplicate",
        ),
        (
            r#"{"do":"add","device":"a","circuit":"7","suspended":"maybe"}"#,
            "`yes` or `no`",
        ),
        (
            r#"{"do":"show","device":"a","circuit":"7","plan":"home"}"#,
            "plan",
        ),
        (&nested, "recursion"),
    ] {
        let why = Request::read(line).unwrap_err();
        assert!(why.contains(part) && why.contains("write a line"), "{why}");
    }
    let wanted = Wanted {
        addresses: Some("192.0.2.300 192.0.2.1/24".to_owned()),
        ..Wanted::default()
    };
    assert_eq!(wanted.asked().unwrap_err().lines().count(), 2);
}
