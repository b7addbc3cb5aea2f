"""The report of a run: one self-contained HTML file, made from plain data."""

from viewsmith.reports.content import (
    EmbeddingMap,
    FeatureProfile,
    FeatureViolins,
    Gallery,
    Projections,
    ReportContent,
    SimilarityHistogram,
    SortedSimilarities,
    TransformProbabilities,
)
from viewsmith.reports.drawing import two_dimensional_map
from viewsmith.reports.maps import MapPlot
from viewsmith.reports.report import png_files, render_report, write_report

__all__ = [
    "EmbeddingMap",
    "FeatureProfile",
    "FeatureViolins",
    "Gallery",
    "MapPlot",
    "Projections",
    "ReportContent",
    "SimilarityHistogram",
    "SortedSimilarities",
    "TransformProbabilities",
    "png_files",
    "render_report",
    "two_dimensional_map",
    "write_report",
]
