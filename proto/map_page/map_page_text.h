#pragma once

// The page in three pieces, as embed.py wrote them.

namespace tenure::map_page {

extern const char kPolicy[];
extern const char kBeforeSnapshot[];
extern const char kAfterSnapshot[];

}  // namespace tenure::map_page
