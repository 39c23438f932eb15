from .settings import SETTINGS
