#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/content_id.h"
#include "core/base/ids.h"
#include "core/base/status.h"

namespace tenure {

// A revision of a name, and the Region that has its weights.
struct Model {
  std::string name;
  Revision revision;
  RegionId region;
  std::string path;    // canonical
  std::string source;  // as the load named it
  bool pinned = false;
  std::optional<Duration> retain_ttl;  // nullopt: as configured
};

// INVALID_REQUEST unless `name` is what a model may be called: letters, digits, '.', '_', '-' and
// '/', at most 128, beginning with a letter or digit.
Status CheckModelName(std::string_view name);

// Which model each Region of one Device belongs to, and which revision of a name is current: the
// one that is Active, at most one for each name. A Region belongs to exactly one model from its
// load until it is freed or another model adopts it. Thread-compatible.
class ModelTable {
 public:
  // The revision that `name` gets with `content`: the last one if that had the same content, else a
  // new one. Forgets nothing: revisions of a name only grow.
  Revision RevisionFor(std::string_view name, const ContentId& content) const;

  // `model.region` belongs to `model` from now on; whoever had it before has no Region any more.
  void Assign(Model model);
  // The model is Active with `content`: it is the name's current revision.
  void SetCurrent(RegionId region, const ContentId& content);
  // The model is not Active any more.
  void ClearCurrent(RegionId region);
  void Erase(RegionId region);

  // nullptr if there is none.
  const Model* OfRegion(RegionId region) const;
  // "name@revision". REQUIRES: the Region has a model.
  std::string FullNameOf(RegionId region) const;
  const Model* Current(std::string_view name) const;
  const Model* Find(std::string_view name, Revision revision) const;
  // All models of the name, by revision, then by Region.
  std::vector<const Model*> Named(std::string_view name) const;
  // In the order of name, revision, Region.
  std::vector<const Model*> All() const;

 private:
  struct Name {
    Revision last_revision;
    ContentId last_content;
    std::optional<RegionId> current;
  };

  std::unordered_map<RegionId, Model> models_;
  std::map<std::string, Name, std::less<>> names_;
};

}  // namespace tenure
