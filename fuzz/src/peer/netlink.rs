// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzzes any bytes as a kernel's answers to netlink requests, message by message: wrong sequence
//! numbers, wrong lengths, errors, dumps that are interrupted or endless, attributes of any kind.
//! The first byte selects the request.
//!
//! Besides "no panic", this must hold: each request ends when the answers do, with an error or with
//! values from the answers.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use tokio::runtime::{Builder, Runtime};
use weirgate_kernel::{
    ConnectionTable, DeviceName, DeviceNews, Events, Kernel, PlayedAnswer, Scope,
};
use weirgate_state::Routing;

/// How often endless answers are repeated.
const ENDLESS: usize = 40;

/// The length of a message's header in the input: how it is sent, its type, its flags, its sequence
/// number, and its length.
const HEAD: usize = 7;

/// Flags of how a message is sent: it begins a separate datagram; it is not queued yet; its length
/// differs from that of its payload. The upper half of the byte is the netfilter subsystem, 0 for
/// rtnetlink.
const APART: u8 = 1;
const LATER: u8 = 2;
const WRONG: u8 = 4;

pub fn run(data: &[u8]) {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime")
    });
    let Some((&asked, script)) = data.split_first() else {
        return;
    };
    let mut answers = answers(script);
    if asked & 128 != 0 {
        answers = vec![answers; ENDLESS].concat();
    }
    let bytes = answers.iter().map(|answer| answer.bytes.len()).sum();
    RUNTIME.block_on(asking(asked & 127, answers, bytes));
}

/// Returns the datagrams of a script.
fn answers(mut script: &[u8]) -> Vec<PlayedAnswer> {
    let mut answers: Vec<PlayedAnswer> = Vec::new();
    while let Some((head, rest)) = script.split_first_chunk::<HEAD>() {
        let &[how, kind, low, high, back, length, more] = head;
        let length = usize::from(length) | usize::from(more) << 8;
        let (payload, rest) = rest.split_at(length.min(rest.len()));
        script = rest;
        let kind = u16::from(how & 0xf0) << 4 | u16::from(kind);
        let stated = if how & WRONG == 0 {
            16 + payload.len()
        } else {
            usize::from(low) << 4
        };
        let mut message = (stated as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend([low, high]);
        message.extend(u32::from(back).to_ne_bytes());
        message.extend([0; 4]);
        message.extend(payload);
        message.resize(message.len().next_multiple_of(4), 0);
        match answers.last_mut().filter(|_| how & APART == 0) {
            Some(last) => last.bytes.extend(message),
            None => answers.push(PlayedAnswer {
                bytes: message,
                later: how & LATER != 0,
            }),
        }
    }
    answers
}

/// Makes one kind of request.
async fn asking(what: u8, answers: Vec<PlayedAnswer>, bytes: usize) {
    let name = DeviceName::new("wan0").expect("a device's name");
    if what == b'd' {
        let news = DeviceNews::played(answers);
        while let Some(names) = news.next().await {
            assert!(names.len() <= bytes / 16);
        }
        return;
    }
    if what == b'e' {
        Events::played(answers.clone(), answers).next().await;
        return;
    }
    let kernel = Kernel::played(answers);
    match what {
        b'o' => {
            let tables = [true, false].map(|netdev| (netdev, String::from("weirgate")));
            let scope = Scope {
                devices: [name].into(),
                tables: BTreeSet::from(tables),
                ..Scope::default()
            };
            if let Ok(state) = kernel.observe(&scope).await {
                assert!(state.tables.len() <= bytes / 16 + 2);
            }
        }
        b'r' => {
            if let Ok(routing) = kernel.routing().await {
                assert!(routing.rules.len() + routing.routes.len() <= bytes / 16);
            }
        }
        b's' => drop(kernel.set_routing(&Routing::default()).await),
        b'q' => {
            if let Ok(device) = kernel.device(&name).await {
                drop(kernel.stats(device).await);
            }
        }
        b'l' => drop(kernel.devices().await),
        b'v' => drop(kernel.overview().await),
        b'u' => drop(kernel.subnets().await),
        b'w' => drop(kernel.network().await),
        b'p' => drop(kernel.link_paths(&[(&name, &[])]).await),
        b'c' => {
            if let Ok(table) = kernel.connection_table().await {
                planted(&table);
                assert!(table.count.all as usize <= bytes / 16);
                assert!(table.count.unanswered <= table.count.all);
            }
        }
        b'x' => drop(kernel.drop_connections(0xf00, 0x100).await),
        b'n' => drop(kernel.rule_counters(false, "weirgate").await),
        b'k' => drop(kernel.capabilities().await),
        _ => {}
    }
}

/// The planted mistake: two connections with a mark, which no seed has.
#[cfg(feature = "planted")]
fn planted(table: &ConnectionTable) {
    assert!(
        table.count.marked != 2,
        "the planted mistake: two marked connections"
    );
}

#[cfg(not(feature = "planted"))]
fn planted(_: &ConnectionTable) {}
