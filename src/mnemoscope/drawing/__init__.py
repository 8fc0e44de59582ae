"""Tools shared by all figures: palette, colour maps, axes, projections, SVG."""
