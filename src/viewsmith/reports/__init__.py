"""The report of a run: one self-contained HTML file, made of figures and plain data."""

from viewsmith.reports.charts import draw_bars, draw_gallery, draw_profile, draw_similarities, draw_violins
from viewsmith.reports.figure import Figure, Legend, MapPlot, Picture, color_by, draw_map, new_axes, two_dimensional_map
from viewsmith.reports.report import ReportContent, png_files, render, render_report, write_report

__all__ = ["Figure", "Legend", "MapPlot", "Picture", "ReportContent", "color_by", "draw_bars", "draw_gallery"]
__all__ += ["draw_map", "draw_profile", "draw_similarities", "draw_violins", "new_axes", "png_files", "render"]
__all__ += ["render_report", "two_dimensional_map", "write_report"]
