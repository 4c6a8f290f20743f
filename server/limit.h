#pragma once

#include <atomic>
#include <optional>
#include <utility>

namespace tenure {

// Lets at most so many in at a time. Thread-safe.
class Limit {
 public:
  explicit Limit(int most) : most_(most) {}

  // Whoever is inside stays.
  void SetMost(int most) { most_.store(most); }

  // A place inside, given back by the destructor. Move-only.
  class Place {
   public:
    explicit Place(std::atomic<int>& inside) : inside_(&inside) {}
    Place(Place&& other) noexcept : inside_(std::exchange(other.inside_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (inside_ != nullptr) inside_->fetch_sub(1);
    }

   private:
    std::atomic<int>* inside_;
  };

  // nullopt if there is no room.
  std::optional<Place> TryEnter() {
    if (inside_.fetch_add(1) < most()) return std::optional<Place>(std::in_place, inside_);
    inside_.fetch_sub(1);
    return std::nullopt;
  }

  int most() const { return most_.load(); }

 private:
  std::atomic<int> most_;
  std::atomic<int> inside_ = 0;
};

}  // namespace tenure
