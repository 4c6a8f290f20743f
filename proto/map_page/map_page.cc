#include "proto/map_page/map_page.h"

#include "proto/map_page/map_page_text.h"

namespace tenure {

std::string MapPage(std::string_view snapshot_json) {
  std::string page = map_page::kBeforeSnapshot;
  // Names in the map must not end the element that it lies in.
  for (const char c : snapshot_json) {
    if (c == '<') {
      page += "\\u003c";
    } else {
      page += c;
    }
  }
  return page + map_page::kAfterSnapshot;
}

std::string MapPagePolicy() { return map_page::kPolicy; }

}  // namespace tenure
