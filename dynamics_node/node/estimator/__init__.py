"""dynamics_estimator: joint state and external torques from noisy sensors, by a fixed-lag smoother."""
