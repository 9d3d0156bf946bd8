"""Launch files take the domain of the environment: one that nobody else is in."""

import os

from domains import fresh_domain

os.environ["ROS_DOMAIN_ID"] = str(fresh_domain().number)
