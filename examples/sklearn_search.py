"""An estimator of viewsmith in scikit-learn's Pipeline and GridSearchCV: python sklearn_search.py

The representation is learned anew in each fold, without labels and without the rows of the held-out fold; the search
chooses by the accuracy of the classifier behind it. The test rows are used once, at the end. On these digits it chooses
the pixels themselves.
"""

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.feature_selection import VarianceThreshold
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from viewsmith import Contrastive


def main(rows: int = 600, epochs: int | str = "auto", folds: int = 3) -> GridSearchCV:
    """Search over representations with few labeled rows, and print the mean accuracies and that of the test rows."""
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, train_size=rows, stratify=y, random_state=0)
    learned = Contrastive(epochs=epochs, random_state=0)
    classifier = LogisticRegression(max_iter=1000)
    steps = [
        ("vary", VarianceThreshold()),
        ("represent", learned),
        ("scale", StandardScaler()),
        ("classify", classifier),
    ]
    pipeline = Pipeline(steps)  # without the pixels that are constant in a fold
    choices = [
        {"represent": ["passthrough", PCA(32, random_state=0)]},
        {"represent": [learned], "represent__n_neighbors": [3, 5], "classify__C": [0.1, 1.0]},
    ]
    search = GridSearchCV(pipeline, choices, cv=folds).fit(x_train, y_train)
    for accuracy, chosen in zip(search.cv_results_["mean_test_score"], search.cv_results_["params"], strict=True):
        print(f"{accuracy:.3f}  {chosen}")
    print(f"best on test rows: {search.score(x_test, y_test):.3f}")
    return search


if __name__ == "__main__":
    main()
