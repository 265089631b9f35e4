// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drawing primitives: text, lines and rectangles.

use crate::markup::{escaped, px};
use std::fmt::Write as _;

/// The width of every plot.
pub(crate) const WIDTH: f64 = 760.0;

/// The number of colours.
const COLOURS: usize = 7;

/// A finished plot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drawing {
    /// Its name, for captions and file names: `latency`.
    pub name: &'static str,
    /// Its heading.
    pub title: String,
    /// A description for readers who cannot see the plot.
    pub description: String,
    body: String,
    height: u32,
}

impl Drawing {
    /// Returns a complete SVG file with its own colours.
    #[must_use]
    pub fn standalone(&self) -> String {
        let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
        head.to_owned() + &self.element(self.name, &format!("<style>{}</style>\n", super::STYLE))
    }

    /// Returns an element for a page that defines the colours. `id` must be unique there.
    #[must_use]
    pub fn inline(&self, id: &str) -> String {
        self.element(id, "")
    }

    fn element(&self, id: &str, style: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {WIDTH} {}\" \
             width=\"{WIDTH}\" height=\"{}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\n\
             <title id=\"{id}-t\">{}</title>\n<desc id=\"{id}-d\">{}</desc>\n{style}{}</svg>\n",
            self.height,
            self.height,
            escaped(&self.title),
            escaped(&self.description),
            self.body
        )
    }
}

/// The alignment of a text at its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A plot while it is drawn.
#[derive(Default)]
pub(super) struct Canvas {
    body: String,
}

impl Canvas {
    pub(super) fn finish(
        self,
        name: &'static str,
        title: String,
        description: String,
        height: f64,
    ) -> Drawing {
        Drawing {
            name,
            title,
            description,
            body: self.body,
            height: height.ceil() as u32,
        }
    }

    fn push(&mut self, element: std::fmt::Arguments) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(element);
    }

    /// Draws text; `class` is `t` for titles, `n` for names, empty otherwise.
    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " m",
            Anchor::End => " e",
        };
        let class = format!("{class}{anchor}");
        let text = escaped(text);
        let (x, y) = (px(x), px(y));
        match class.trim() {
            "" => self.push(format_args!("<text x=\"{x}\" y=\"{y}\">{text}</text>\n")),
            class => self.push(format_args!(
                "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n"
            )),
        }
    }

    /// Draws text along a vertical axis, read upwards.
    pub(super) fn vertical_text(&mut self, x: f64, y: f64, text: &str) {
        let (x, y, text) = (px(x), px(y), escaped(text));
        self.push(format_args!(
            "<text class=\"m\" transform=\"translate({x} {y}) rotate(-90)\">{text}</text>\n"
        ));
    }

    /// Draws a path of several strokes.
    pub(super) fn path(&mut self, class: &str, path: &Path) {
        if !path.0.is_empty() {
            self.push(format_args!("<path class=\"{class}\" d=\"{}\"/>\n", path.0));
        }
    }

    /// Draws a filled rectangle with a tooltip.
    pub(super) fn rect(&mut self, class: &str, area: (f64, f64, f64, f64), hint: &str) {
        let (x, y, width, height) = (px(area.0), px(area.1), px(area.2), px(area.3));
        let start = format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\""
        )
        .to_string();
        if hint.is_empty() {
            self.push(format_args!("{start}/>\n"));
        } else {
            self.push(format_args!(
                "{start}><title>{}</title></rect>\n",
                escaped(hint)
            ));
        }
    }

    /// Draws a dot with a tooltip.
    pub(super) fn dot(&mut self, class: &str, x: f64, y: f64, radius: f64, hint: &str) {
        self.push(format_args!(
            "<circle class=\"{class}\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}</title></circle>\n",
            px(x),
            px(y),
            px(radius),
            escaped(hint)
        ));
    }
}

/// Returns the style class of a series' stroke.
pub(super) fn stroke(series: usize) -> String {
    format!("c{}", series % COLOURS)
}

/// Returns the style class of a series' fill.
pub(super) fn fill(series: usize) -> String {
    format!("f{}", series % COLOURS)
}

/// The `d` attribute of a path, with short coordinates.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn line(x1: f64, y1: f64, x2: f64, y2: f64) -> Self {
        let mut path = Self::default();
        path.move_to(x1, y1);
        path.line_to(x2, y2);
        path
    }

    pub(super) fn move_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.0, "M{} {}", px(x), px(y));
    }

    pub(super) fn line_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.0, "L{} {}", px(x), px(y));
    }

    pub(super) fn vertical_to(&mut self, y: f64) {
        let _ = write!(self.0, "V{}", px(y));
    }

    pub(super) fn horizontal_to(&mut self, x: f64) {
        let _ = write!(self.0, "H{}", px(x));
    }
}
