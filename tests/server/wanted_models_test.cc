#include "server/wanted_models.h"

#include <atomic>
#include <filesystem>
#include <future>

#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

class WantedModelsTest : public ServiceTest {
 protected:
  // Writes a model's file and wishes for it.
  WantedModel Wish(const std::string& name, Bytes bytes, bool pin = false) {
    RequestFor(name, bytes, 1);
    return {.name = name, .path = "models/" + name + ".safetensors", .pin = pin};
  }

  void Start(std::vector<WantedModel> models) {
    ready_ = false;
    own_.reset();  // one at a time has the file
    own_ = std::make_unique<WantedModels>(*store_, Path(), std::move(models));
    own_->Start([this](bool ready) { ready_ = ready; });
  }

  std::string Path() const { return directory_ / "own.yaml"; }
  bool BecomesReady() {
    return Comes([this] { return ready_.load(); });
  }
  bool Online(const std::string& name) const {
    const StatusOr<ModelView> model = store_->GetModel(name, {}, "");
    return model.ok() && model->state == RegionState::kActive;
  }
  StatusOr<LoadResult> LoadPinned(const std::string& name) {
    LoadRequest request;
    request.name = name;
    request.path = "models/" + name + ".safetensors";
    request.pin = true;
    TENURE_RETURN_IF_ERROR(own_->OnLoading(request));
    StatusOr<LoadResult> result = store_->Load(request, {});
    if (result.ok()) {
      own_->OnLoaded(request, result->model);
    } else {
      own_->OnLoadFailed(request);
    }
    return result;
  }
  // Keeps the file of pins from being written, even for root.
  void Block() { directory_.MakeDir("own.yaml.next"); }
  void Unblock() { std::filesystem::remove(Path() + ".next"); }
  std::vector<std::string> Saved() const {
    std::vector<std::string> names;
    const StatusOr<std::vector<WantedModel>> read = PinFile(Path()).Read();
    EXPECT_TRUE(read.ok()) << read.status();
    for (const WantedModel& model : *read) names.push_back(model.name);
    return names;
  }
  std::string ReasonOfFirst() const {
    const WantedModels::Progress progress = own_->GetProgress();
    if (progress.pending.empty()) return "nothing is pending";
    return DetailOf(progress.pending[0].error).value_or(ErrorDetail{}).reason;
  }

  std::atomic<bool> ready_ = false;
  std::unique_ptr<WantedModels> own_;
};

TEST_F(WantedModelsTest, AreBroughtOnlineWithoutBeingAskedFor) {
  Start({Wish("a", KiB(40)), Wish("b", KiB(40))});
  EXPECT_TRUE(BecomesReady());
  EXPECT_TRUE(Online("a"));
  EXPECT_TRUE(Online("b"));
  const WantedModels::Progress progress = own_->GetProgress();
  EXPECT_TRUE(progress.ready);
  EXPECT_EQ(progress.wanted, 2u);
  EXPECT_TRUE(progress.pending.empty());
}

TEST_F(WantedModelsTest, WithNothingWantedTheDaemonIsReadyAtOnce) {
  Start({});
  EXPECT_TRUE(ready_);
}

TEST_F(WantedModelsTest, WhatFindsNoRoomComesOnlineOnceThereIsSomeAndHoldsNothingElseUp) {
  Load(RequestFor("big", KiB(300), 1));
  Start({Wish("waits", KiB(400)), Wish("fits", KiB(40))});
  EXPECT_TRUE(Comes([this] { return Online("fits"); }));
  EXPECT_TRUE(Comes([this] { return ReasonOfFirst() == "CAPACITY"; }));
  EXPECT_FALSE(ready_);
  Unload("big");
  EXPECT_TRUE(BecomesReady());
  EXPECT_TRUE(Online("waits"));
}

TEST_F(WantedModelsTest, RoomThatIsNotThereIsNotAskedForAgainAndAgain) {
  Load(RequestFor("big", KiB(300), 1));
  Start({Wish("waits", KiB(400)), {.name = "late", .path = "models/late.safetensors"}});
  EXPECT_TRUE(Comes([this] { return ReasonOfFirst() == "CAPACITY"; }));
  RequestFor("late", KiB(8), 1);
  EXPECT_TRUE(Comes([this] { return Online("late"); }));  // after a few looks at what is pending
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().counters.failed_loads.at("CAPACITY"), 1u);
}

TEST_F(WantedModelsTest, AFileThatIsMissingIsLookedForUntilItComes) {
  Start({{.name = "late", .path = "models/late.safetensors"}});
  EXPECT_TRUE(Comes([this] { return ReasonOfFirst() == "FILE_NOT_FOUND"; }));
  EXPECT_FALSE(ready_);
  RequestFor("late", KiB(40), 1);
  EXPECT_TRUE(BecomesReady());
  EXPECT_TRUE(Online("late"));
}

TEST_F(WantedModelsTest, ABrokenFileDoesNotKeepTheDaemonFromBeingReady) {
  directory_.WriteFile("broken.safetensors", "garbage, and enough of it");
  Start({{.name = "broken", .path = "models/broken.safetensors"}, Wish("a", KiB(40))});
  EXPECT_TRUE(BecomesReady());
  EXPECT_TRUE(Online("a"));
  EXPECT_EQ(ReasonOfFirst(), "INVALID_CHECKPOINT");
}

TEST_F(WantedModelsTest, WhatCallersLoadOrUnloadIsWantedNoMore) {
  Load(RequestFor("big", KiB(300), 1));
  Start({Wish("waits", KiB(400)), Wish("other", KiB(420))});
  EXPECT_TRUE(Comes([this] { return ReasonOfFirst() == "CAPACITY"; }));
  own_->OnUnloaded("waits", "");
  own_->OnUnloaded("other", "host:0");
  EXPECT_TRUE(ready_);
  EXPECT_EQ(own_->GetProgress().wanted, 0u);
}

TEST_F(WantedModelsTest, PinnedModelsComeBackWithTheNextDaemon) {
  Start({});
  RequestFor("pinned", KiB(40), 1);
  RequestFor("gone", KiB(40), 2);
  ASSERT_TRUE(LoadPinned("pinned").ok());
  ASSERT_TRUE(LoadPinned("gone").ok());
  Load(RequestFor("loose", KiB(40), 3));
  Unload("gone");
  own_->OnUnloaded("gone", "");

  // As after a crash: nobody said goodbye, and nothing is online.
  Unload("pinned");
  Unload("loose");
  Start({});
  EXPECT_TRUE(BecomesReady());
  EXPECT_TRUE(Online("pinned"));
  EXPECT_FALSE(Online("gone"));
  EXPECT_FALSE(Online("loose"));
  EXPECT_TRUE(store_->GetModel("pinned", {}, "")->pinned);
}

TEST_F(WantedModelsTest, WhatIsNotBackYetStaysPinned) {
  Start({});
  RequestFor("pinned", KiB(400), 1);
  ASSERT_TRUE(LoadPinned("pinned").ok());
  Unload("pinned");
  Load(RequestFor("big", KiB(300), 1));

  Start({});
  EXPECT_TRUE(Comes([this] { return ReasonOfFirst() == "CAPACITY"; }));
  RequestFor("more", KiB(8), 2);
  ASSERT_TRUE(LoadPinned("more").ok());  // writes the file
  Unload("more");
  Unload("big");
  Start({});
  EXPECT_TRUE(BecomesReady());
  EXPECT_TRUE(Online("pinned"));
  EXPECT_TRUE(Online("more"));
}

TEST_F(WantedModelsTest, WhatIsNoLongerConfiguredDoesNotComeBack) {
  Start({Wish("a", KiB(40), true), Wish("never", KiB(900), true)});
  EXPECT_TRUE(Comes([this] { return Online("a") && ReasonOfFirst() == "CAPACITY"; }));
  RequestFor("pinned", KiB(8), 2);
  ASSERT_TRUE(LoadPinned("pinned").ok());
  ASSERT_TRUE(LoadPinned("a").ok());
  for (const char* name : {"a", "pinned"}) Unload(name);
  Start({});
  EXPECT_TRUE(BecomesReady());
  EXPECT_TRUE(Online("pinned"));
  EXPECT_FALSE(Online("a"));
}

TEST_F(WantedModelsTest, APinnedLoadThatCannotBeSavedIsRefusedAndNothingIsLoaded) {
  Start({});
  RequestFor("a", KiB(40), 1);
  Block();
  const Status refused = LoadPinned("a").status();
  EXPECT_TRUE(HasReason(refused, Reason::kBackend)) << refused;
  EXPECT_NE(std::string(refused.message()).find(Path()), std::string::npos) << refused;
  EXPECT_TRUE(store_->Models().empty());
  Load(RequestFor("a", KiB(40), 1));  // without a pin it can be had

  Unblock();
  EXPECT_TRUE(LoadPinned("a").ok());
  EXPECT_EQ(Saved(), std::vector<std::string>{"a"});
}

TEST_F(WantedModelsTest, APinIsSavedBeforeItsModelIsLoaded) {
  Start({});
  RequestFor("slow", KiB(40), 1);
  files_.Hold("slow.safetensors");
  auto loading = std::async(std::launch::async, [this] { return LoadPinned("slow").status(); });
  files_.AwaitHeldRead();
  EXPECT_EQ(Saved(), std::vector<std::string>{"slow"});
  files_.Release();
  EXPECT_TRUE(loading.get().ok());
  EXPECT_EQ(Saved(), std::vector<std::string>{"slow"});
}

TEST_F(WantedModelsTest, WhatCouldNotBeLoadedIsNotPinned) {
  Start({});
  RequestFor("a", KiB(40), 1);
  ASSERT_TRUE(LoadPinned("a").ok());
  RequestFor("large", KiB(900), 1);
  EXPECT_FALSE(LoadPinned("large").ok());
  EXPECT_FALSE(LoadPinned("missing").ok());
  EXPECT_EQ(Saved(), std::vector<std::string>{"a"});
}

TEST_F(WantedModelsTest, WhatCouldNotBeSavedIsSavedOnceThereIsRoom) {
  Start({});
  RequestFor("a", KiB(40), 1);
  ASSERT_TRUE(LoadPinned("a").ok());
  Block();
  Unload("a");
  own_->OnUnloaded("a", "");
  EXPECT_EQ(Saved(), std::vector<std::string>{"a"});
  Unblock();
  EXPECT_TRUE(Comes([this] { return Saved().empty(); }));
}

TEST_F(WantedModelsTest, WhatCouldNotBeSavedIsTriedOnceMoreAtTheEnd) {
  Start({});
  RequestFor("a", KiB(40), 1);
  ASSERT_TRUE(LoadPinned("a").ok());
  own_->Stop();
  Block();
  Unload("a");
  own_->OnUnloaded("a", "");
  Unblock();
  own_->Stop();
  EXPECT_TRUE(Saved().empty());
}

TEST_F(WantedModelsTest, AFileOfPinsThatIsBrokenIsLeftOutAndNothingElse) {
  directory_.WriteFile("own.yaml", "models: 5\n");
  Start({Wish("a", KiB(40))});
  EXPECT_TRUE(BecomesReady());
  EXPECT_TRUE(Online("a"));
}

TEST_F(WantedModelsTest, WhatIsConfiguredAnewIsBroughtOnlineAndTheDaemonIsNotReadyUntilThen) {
  Start({});
  ASSERT_TRUE(ready_);
  const WantedModel model = Wish("a", KiB(40));
  files_.Hold("a.safetensors");
  own_->SetConfigured({model});
  files_.AwaitHeldRead();
  EXPECT_FALSE(ready_);
  EXPECT_EQ(own_->GetProgress().wanted, 1u);
  files_.Release();
  EXPECT_TRUE(BecomesReady());
  EXPECT_TRUE(Online("a"));
}

TEST_F(WantedModelsTest, WhatIsConfiguredNoMoreGoesOfflineWithItsPinAndLeasesLive) {
  const WantedModel kept = Wish("kept", KiB(8));
  Start({Wish("a", KiB(40), /*pin=*/true), Wish("leased", KiB(8)), kept});
  ASSERT_TRUE(BecomesReady());
  const SessionId session = store_->OpenSession({.program = "holder", .instance = "0"});
  ASSERT_TRUE(store_->Acquire(session, "leased", "", std::nullopt, "").ok());
  own_->SetConfigured({kept});
  EXPECT_EQ(store_->GetModel("a", {}, "")->state, RegionState::kRetained);
  EXPECT_EQ(store_->GetModel("leased", {}, "")->state, RegionState::kDraining);
  EXPECT_TRUE(Online("kept"));
  EXPECT_TRUE(Saved().empty());
  EXPECT_EQ(own_->GetProgress().wanted, 1u);
  EXPECT_TRUE(ready_);
}

TEST_F(WantedModelsTest, AnotherPathIsANewRevisionOfTheName) {
  WantedModel model = Wish("a", KiB(40));
  Start({model});
  ASSERT_TRUE(BecomesReady());
  EXPECT_EQ(store_->GetModel("a", {}, "")->revision, Revision(1));
  Wish("b", KiB(48));
  model.path = "models/b.safetensors";
  own_->SetConfigured({model});
  EXPECT_TRUE(Comes([this] { return store_->GetModel("a", {}, "")->revision == Revision(2); }));
  EXPECT_EQ(store_->GetModel("a", {}, "")->source, "models/b.safetensors");
}

TEST_F(WantedModelsTest, AnotherPinIsTakenOverWithoutReadingTheModelAgain) {
  WantedModel model = Wish("a", KiB(40));
  Start({model});
  ASSERT_TRUE(BecomesReady());
  const uint64_t copied = store_->devices()[0]->TakeSnapshot().counters.copied_bytes;
  model.pin = true;
  own_->SetConfigured({model});
  EXPECT_TRUE(Comes([this] { return store_->GetModel("a", {}, "")->pinned; }));
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().counters.copied_bytes, copied);
}

TEST_F(WantedModelsTest, WhatACallerPutUnderTheNameStaysWhenTheConfigurationLetsGo) {
  Start({Wish("a", KiB(40))});
  ASSERT_TRUE(BecomesReady());
  v1::LoadModelRequest other = RequestFor("other", KiB(8), 1);
  other.set_name("a");
  Load(other);
  own_->SetConfigured({});
  EXPECT_TRUE(Online("a"));
}

TEST_F(WantedModelsTest, WhatIsTakenOutWhileItIsBeingLoadedDoesNotStayOnline) {
  Start({});
  files_.Hold("slow.safetensors");
  own_->SetConfigured({Wish("slow", KiB(40))});
  files_.AwaitHeldRead();
  own_->SetConfigured({});
  EXPECT_TRUE(ready_);
  files_.Release();
  EXPECT_TRUE(Comes([this] {
    const StatusOr<ModelView> model = store_->GetModel("slow", {}, "");
    return model.ok() && model->state == RegionState::kRetained;
  }));
}

TEST_F(WantedModelsTest, StoppingDoesNotWaitForAFileThatHangs) {
  files_.Hold("a.safetensors");
  Start({Wish("a", KiB(40))});
  files_.AwaitHeldRead();
  own_->Stop();
  EXPECT_FALSE(ready_);
}

}  // namespace
}  // namespace tenure
