"""What all figures share: palette, colour maps, blank axes, projections, SVG."""
