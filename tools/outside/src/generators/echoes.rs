// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the table of echoes that `weirgate probe --write` writes.

use super::figures::{Figures, times};
use anyhow::{Context, Result, ensure};

/// Returns the figures of echoes on the idle line.
pub fn figures(text: &str) -> Result<Figures> {
    let mut lines = text.lines();
    ensure!(
        lines.next() == Some("part,at_ms,round_trip_ms"),
        "not a table of echoes: {text}"
    );
    let (mut sent, mut took) = (0_u32, Vec::new());
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let [part, _, time] = cells[..] else {
            continue;
        };
        if part != "idle" {
            continue;
        }
        sent += 1;
        if !time.is_empty() {
            let ms: f64 = time.parse().with_context(|| line.to_owned())?;
            took.push((ms * 1e6).round() as u64);
        }
    }
    ensure!(sent > 0, "no echo was sent");
    let loss = 1.0 - took.len() as f64 / f64::from(sent);
    let mut figures = times(took);
    figures.insert("loss".to_owned(), loss);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::figures;

    #[test]
    fn a_table_is_read() {
        let text = "part,at_ms,round_trip_ms\r\nidle,0.000,20.500\r\nidle,50.0,\r\nup,0.1,90.0\r\n";
        let figures = figures(text).unwrap();
        assert_eq!((figures["loss"], figures["mean_ms"]), (0.5, 20.5));
        assert!(super::figures("part\n").is_err());
    }
}
