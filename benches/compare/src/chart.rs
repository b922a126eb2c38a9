//! The picture: two panels of bars, the longer the faster and the longer the dearer, with their spreads.

use crate::common::AnyError;
use crate::report::{Report, Row};
use crate::statistics::Spread;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

const WIDTH: u32 = 960;
const ROW: u32 = 32;
/// Above and below the rows: title, axis, captions.
const FRAME: u32 = 130;
const NAMES: u32 = 110;
const OURS: RGBColor = RGBColor(217, 95, 2);
const THEIRS: RGBColor = RGBColor(140, 160, 185);
const BASE: RGBColor = RGBColor(110, 110, 110);

/// One of the two figures.
struct Panel {
    title: &'static str,
    value: fn(&Row) -> Option<Spread>,
    names: bool,
}

const PANELS: [Panel; 2] = [
    Panel { title: "GB of records per second", value: |row| row.gb_per_s, names: true },
    Panel { title: "CPU seconds per GB, both processes", value: |row| row.cpu_s_per_gb, names: false },
];

/// Draws the picture into a file.
pub(crate) fn draw(report: &Report, file: &Path) -> Result<(), AnyError> {
    let height = FRAME + ROW * report.rows.len() as u32;
    let area = SVGBackend::new(file, (WIDTH, height)).into_drawing_area();
    let told = |error| format!("{} can't be drawn: {error}", file.display());
    paint(report, &area).and_then(|()| Ok(area.present()?)).map_err(told)?;
    Ok(())
}

fn paint(report: &Report, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), AnyError> {
    area.fill(&WHITE)?;
    let (_, height) = area.dim_in_pixel();
    let (panels, captions) = area.split_vertically(height - 44);
    let (left, right) = panels.split_horizontally((WIDTH + NAMES) / 2);
    for (panel, area) in PANELS.iter().zip([left, right]) {
        bars(report, panel, &area)?;
    }
    let style = ("sans-serif", 13).into_font().color(&BLACK.mix(0.7));
    let machine = &report.machine;
    let lines = [
        format!("Records of {} bytes, {}; lines: least to most.", report.record_bytes, report.basis()),
        format!("{}, {} cores, {}", machine.cpu, machine.cores, machine.kernel),
    ];
    for (at, line) in lines.into_iter().enumerate() {
        captions.draw(&Text::new(line, (10, 4 + 18 * at as i32), style.clone()))?;
    }
    Ok(())
}

fn bars(report: &Report, panel: &Panel, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), AnyError> {
    let rows = &report.rows;
    // The first row is the uppermost; each is one high.
    let place = |at: usize| (rows.len() - 1 - at) as f64;
    let spreads = || {
        let placed = rows.iter().enumerate().map(|(at, row)| (place(at), row));
        placed.filter_map(|(y, row)| Some((y, color(row.name), (panel.value)(row)?)))
    };
    let most = spreads().map(|(.., spread)| spread.most).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(if panel.names { NAMES } else { 8 })
        .build_cartesian_2d(0.0..most * 1.15, 0.0..rows.len() as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(6)
        .label_style(("sans-serif", 13))
        .draw()?;
    chart.draw_series(spreads().map(|(y, color, spread)| {
        Rectangle::new([(0.0, y + 0.2), (spread.median, y + 0.8)], color.filled())
    }))?;
    chart.draw_series(spreads().map(|(y, _, spread)| {
        PathElement::new([(spread.least, y + 0.5), (spread.most, y + 0.5)], BLACK.stroke_width(2))
    }))?;
    let middle = Pos::new(HPos::Left, VPos::Center);
    chart.draw_series(spreads().map(|(y, _, spread)| {
        let style = ("sans-serif", 12).into_font().color(&BLACK).pos(middle);
        EmptyElement::at((spread.most, y + 0.5)) + Text::new(format!("{:.2}", spread.median), (6, 0), style)
    }))?;
    if panel.names {
        let style = ("sans-serif", 13).into_font().color(&BLACK).pos(Pos::new(HPos::Right, VPos::Center));
        for (at, row) in rows.iter().enumerate() {
            // The panel with the names begins where the picture does.
            let (x, y) = chart.backend_coord(&(0.0, place(at) + 0.5));
            area.draw(&Text::new(row.name, (x - 6, y), style.clone()))?;
        }
    }
    Ok(())
}

fn color(name: &str) -> RGBColor {
    match name.split('-').next() {
        Some("pirn") => OURS,
        Some("raw") => BASE,
        _ => THEIRS,
    }
}

#[cfg(test)]
mod tests;
