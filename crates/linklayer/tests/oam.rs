// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The capacity of a line of which one cell in 27 is for operation and maintenance.

use weirgate_linklayer::{LinkLayer, UnknownLayer};
use weirgate_units::Rate;

#[test]
fn packets_have_26_of_27_cells() -> Result<(), UnknownLayer> {
    let plain = LinkLayer::named("adsl:pppoa-vc")?;
    let kept = plain.with_oam(true);
    // 1500 bytes and 10 of overhead are 32 cells.
    assert_eq!(kept.wire_bytes(1_500), 32 * 53);
    let line = Rate::kbit(2_000);
    assert_eq!(
        plain.ip_ceiling(line, 1_500),
        Rate::bits_per_second(2_000_000 * 1_500 / 1_696)
    );
    assert_eq!(
        kept.ip_ceiling(line, 1_500),
        Rate::bits_per_second(2_000_000 * 1_500 * 26 / (1_696 * 27))
    );
    assert_eq!(
        kept.payload_rate(line),
        Rate::bits_per_second(2_000_000 * 48 * 26 / (53 * 27))
    );
    Ok(())
}
