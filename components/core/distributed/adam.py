"""Adam for gradients that are already sums over replicas."""

from collections.abc import Sequence

import tensorflow as tf

_EPSILON = 1e-7
_Variables = Sequence[tf.Variable]


class Adam(tf.Module):
    """Adam (Kingma & Ba 2015, the form at the end of section 2) over variables whose gradients are already global.

    Epsilon, 1e-7, is added to the uncorrected root, as in Keras. That is algorithm 1 with epsilon / sqrt(1 - beta_2^t)
    for its epsilon, so early on, gradients of 1e-6 and less move a weight by less than the learning rate.

    It never communicates: Keras' optimizers would sum these gradients over replicas once more.
    """

    def __init__(self, variables: _Variables, learning_rate: float, beta_1: float, beta_2: float, name: str) -> None:
        super().__init__(name=name)
        self.learning_rate, self.beta_1, self.beta_2 = learning_rate, beta_1, beta_2
        # Updates applied so far. Every replica adds the same to its own copy, as it does to all variables here.
        self.iterations = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.first, self.second = (
            [tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False) for variable in variables]
            for _ in range(2)
        )

    def state(self, prefix: str, paths: Sequence[str]) -> dict[str, tf.Variable]:
        """Return counter and moments by name; `paths` are those of the trained variables, in order."""
        named = {f"{prefix}/iterations": self.iterations}
        for path, first, second in zip(paths, self.first, self.second, strict=True):
            named |= {f"{prefix}/first/{path}": first, f"{prefix}/second/{path}": second}
        return named

    def updated(
        self, gradients: Sequence[tf.Tensor], variables: _Variables, rate_factor: tf.Tensor | float = 1.0
    ) -> list[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Return both moments and each variable as after an update, and change nothing.

        A variable is not finite if one of its moments is not: infinity minus infinity is NaN.
        """
        step = tf.cast(self.iterations + 1, gradients[0].dtype)
        # A cast would round them to float32 first.
        beta_1, beta_2 = (tf.constant(beta, step.dtype) for beta in (self.beta_1, self.beta_2))
        correction = tf.sqrt(1.0 - tf.pow(beta_2, step)) / (1.0 - tf.pow(beta_1, step))
        rate = tf.cast(self.learning_rate * rate_factor, step.dtype) * correction
        updates = []
        for gradient, variable, first, second in zip(gradients, variables, self.first, self.second, strict=True):
            new_first = first + (1.0 - self.beta_1) * (gradient - first)
            new_second = second + (1.0 - self.beta_2) * (tf.square(gradient) - second)
            updates.append((new_first, new_second, variable - rate * new_first / (tf.sqrt(new_second) + _EPSILON)))
        return updates

    def accept(self, variables: _Variables, updated: Sequence[tuple[tf.Tensor, ...]], finite: tf.Tensor) -> None:
        """Assign what `updated` returned if `finite`, a scalar bool, holds."""

        def assign() -> None:
            for olds, news in zip(zip(self.first, self.second, variables, strict=True), updated, strict=True):
                for old, new in zip(olds, news, strict=True):
                    old.assign(new)

        tf.cond(finite, assign, lambda: None)
        self.iterations.assign_add(tf.cast(finite, tf.int64))
