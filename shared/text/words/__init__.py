"""Words of languages: those that carry no meaning of their own, their forms and stems."""
