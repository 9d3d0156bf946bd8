"""What is wrong with recordings, said by name before anything is fitted to them, and with torques beside what
their joints have in common."""
