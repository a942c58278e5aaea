//! What the tests share. Owns nothing of the product, and knows neither arena nor engine.
