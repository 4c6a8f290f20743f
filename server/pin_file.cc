#include "server/pin_file.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include "core/base/unique_fd.h"
#include "server/config.h"

namespace tenure {
namespace {

std::string DurationText(Duration duration) {
  if (duration == kForever) return "never";
  return std::to_string(std::chrono::ceil<std::chrono::milliseconds>(duration).count()) + "ms";
}

std::string TextOf(const std::vector<WantedModel>& models) {
  YAML::Emitter out;
  out << YAML::Comment("Written by tenured: the models to bring online again after a restart.");
  out << YAML::BeginMap << YAML::Key << "models" << YAML::Value << YAML::BeginSeq;
  for (const WantedModel& model : models) {
    out << YAML::BeginMap;
    out << YAML::Key << "name" << YAML::Value << YAML::DoubleQuoted << model.name;
    out << YAML::Key << "path" << YAML::Value << YAML::DoubleQuoted << model.path;
    out << YAML::Key << "device" << YAML::Value << YAML::DoubleQuoted << model.device;
    out << YAML::Key << "pin" << YAML::Value << model.pin;
    if (model.retain_ttl.has_value()) {
      out << YAML::Key << "retain_ttl" << YAML::Value << DurationText(*model.retain_ttl);
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

Status Failed(const std::string& what, const std::string& path) {
  return Error(Reason::kBackend,
               what + ": " + path + ": " + std::generic_category().message(errno));
}

Status WriteThrough(const std::string& path, const std::string& text) {
  const UniqueFd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return Failed("cannot open", path);
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(file.get(), text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return Failed("cannot write", path);
    done += static_cast<size_t>(wrote);
  }
  if (::fsync(file.get()) != 0) return Failed("cannot write", path);
  return absl::OkStatus();
}

// Makes a rename in `directory` outlive the machine's crash.
Status SyncDirectory(const std::string& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return Failed("cannot write", directory);
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<WantedModel>> PinFile::Read() const {
  const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return std::vector<WantedModel>();
  if (!file.valid()) return Failed("cannot read the file of pinned models", path_);
  std::string text;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t size = ::read(file.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return Failed("cannot read the file of pinned models", path_);
    if (size == 0) return ParseModels(text, path_);
    text.append(piece.data(), static_cast<size_t>(size));
  }
}

Status PinFile::Write(const std::vector<WantedModel>& models) {
  const std::string text = TextOf(models);
  if (text == written_) return absl::OkStatus();
  const std::string next = path_ + ".next";
  Status replaced = WriteThrough(next, text);
  if (replaced.ok() && ::rename(next.c_str(), path_.c_str()) != 0) {
    replaced = Failed("cannot replace", path_);
  }
  if (!replaced.ok()) {
    ::unlink(next.c_str());  // else it would keep what little room there is
    return replaced;
  }
  TENURE_RETURN_IF_ERROR(SyncDirectory(std::filesystem::path(path_).parent_path()));
  written_ = text;
  return absl::OkStatus();
}

}  // namespace tenure
