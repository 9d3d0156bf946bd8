"""Launch files use the domain of the environment: set an unused one."""

import os

from domains import fresh_domain

os.environ["ROS_DOMAIN_ID"] = str(fresh_domain().number)
