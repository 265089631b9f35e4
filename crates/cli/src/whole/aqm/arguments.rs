// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arguments of `weirgate aqm load`.

use clap::Args;
use weirgate_console::discipline::LinkArguments;

/// What is put on a device.
#[derive(Args)]
pub struct Load {
    /// The discipline: a name from `weirgate aqm list`, or the folder, source or built
    /// file of your own (`weirgate aqm build`).
    pub discipline: String,
    /// The device.
    pub device: String,
    /// Parameters, as `name=value`; `weirgate aqm list DISCIPLINE` names them.
    #[arg(value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    #[command(flatten)]
    pub link: LinkArguments,
    /// A class behind the gate, such as
    /// `1:10,priority=0,guarantee=102kbit,ceiling=400kbit,weight=1,queue=codel,target_ns=5ms`.
    ///
    /// A packet's class is its skb->priority, as for HTB. Packets that name none go to the last
    /// class. Without `queue`, DISCIPLINE and its parameters are the class's queue. Its parameter
    /// `weight` is written `queue.weight` here.
    #[arg(long = "class", value_name = "CLASS")]
    pub classes: Vec<String>,
    /// Replace the present root qdisc, or with --ingress the present discipline.
    #[arg(long)]
    pub replace: bool,
    /// Hold arriving packets to the rate without a queue: the discipline marks and drops
    /// as if they were queued. Needs Linux 6.6, but not CONFIG_NET_SCH_BPF.
    #[arg(long)]
    pub ingress: bool,
    /// Print one JSON document.
    #[arg(long)]
    pub json: bool,
}
