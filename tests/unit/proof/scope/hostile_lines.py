"""Command lines that delete or write outside of a worktree, certainly or possibly."""

SURE_LINES = r"""
rm -rf /home/me/project
rm -rf /home/me/project/src
rm -rf /home/me/project/*
rm -rf /home/me/project/{src,tests}
rm -r -f -- /home/me/project/src
rm --recursive --force /home/me/project
sudo rm -rf /home/me/project
sudo -u me -E rm -rf /home/me/project
'rm' -rf "/home/me/project"
r\m -rf /home/me/pro"ject"
/bin/rm -rf /home/me/project
command rm -rf ~/project
rm -rf ~/project
rm -rf $HOME/project
rm -rf "${HOME}/project"
rm -rf ~/
rm -rf ~
rm -rf $HOME
rm -rf /
rm -rf /*
rm -rf /home
rm -rf ..
rm -rf ../*
rm -rf ../other
rm -rf ../../..
rm -rf "$PWD/../other"
rm -rf src/../../other
rm -rf /home/me/.fleet
rm -rf ~/.fleet/worktrees
rm ~/.fleet/fleet.db
rm -rf "$FLEET_HOME"
rm -rf ~/.fleet/tasks/fleet-8
echo x > ~/.fleet/runtime.toml
ls; truncate -s 0 ~/.fleet/fleet.db
rm -rf /home/me/documents
rm -rf ~/.ssh
rm -rf /etc/nginx
rm -rf /usr/lib/python3
D=/home/me/project; rm -rf $D
D=/home/me/project && rm -rf "$D/src"
export P=~/project; rm -rf "$P"
A=/home; B=me/project; rm -rf "$A/$B"
rm -rf $(echo /home/me/project)
rm -rf `echo /home/me/project`
rm -rf $'/home/me/\x70roject'
x=$(rm -rf /home/me/project)
echo "$(rm -rf /home/me/project)"
cd /home/me/project && rm -rf src
cd /home/me/project; git reset --hard
cd ~/project && git checkout main && git merge fix-login
cd /home/me/project && git commit -am "mine"
cd /home/me/project && git stash
cd ../other && git reset --hard
(cd /home/me/project && git clean -fdx)
pushd /home/me/project; rm x; popd
cd /home/me && rm -rf project
cd / && rm -rf home
git -C /home/me/project reset --hard HEAD~3
git -C /home/me/project clean -fd
git -C /home/me/project checkout -f main
git -C ~/project commit --amend -m x
git -C /home/me -C project stash drop
git -C ../other rebase main
git --git-dir=/home/me/project/.git --work-tree=/home/me/project checkout .
git --git-dir /home/me/project/.git update-ref refs/heads/main HEAD
GIT_DIR=/home/me/project/.git GIT_WORK_TREE=/home/me/project git reset --hard
env GIT_DIR=/home/me/project/.git git symbolic-ref HEAD refs/heads/x
git config core.hooksPath /tmp/hooks
git config --local core.fsmonitor "touch /tmp/x"
git config alias.st '!rm -rf x'
git config filter.x.clean 'evil'
git config --add include.path /tmp/evil
git config --global user.email agent@example.invalid
git config --global core.editor true
git config --global --unset credential.helper
git -C /home/me/project config user.name evil
git branch -D main
git branch -f main HEAD
git branch -m main old
git branch -D other
git update-ref refs/heads/main HEAD
git update-ref -d refs/heads/other
git checkout -B main
git switch -C other
git push --force origin main
git push -f origin HEAD:main
git push origin +fix-login:main
git push origin --delete other
git worktree remove --force ../other
git worktree remove /home/me/.fleet/worktrees/project/other
echo evil > /home/me/project/.git/hooks/pre-commit
echo evil > $(git rev-parse --git-common-dir)/hooks/post-commit
cp evil.sh /home/me/project/.git/hooks/post-checkout
chmod +x ~/project/.git/hooks/post-checkout
sed -i 's/a/b/' /home/me/project/.git/config
rm -rf /home/me/project/.git
rm -rf .git && git init
echo "gitdir: /tmp/x" > .git
echo x > /home/me/project/a.py
echo x >> ~/project/a.py
echo x 2> /home/me/project/log
make &> /home/me/project/log
: > /home/me/project/a.py
> /home/me/project/a.py
echo x >| /home/me/project/a.py
echo x | sudo tee -a /home/me/project/a.py
cp a.py /home/me/project/a.py
cp -r src ~/project/
cp -t /home/me/project a b
mv src /home/me/project/src
mv /home/me/project/src .
mv ~/project ~/project.old
ln -sf a /home/me/project/link
ln -s /home/me/project p && rm -rf p/src
install -m 644 a /home/me/project/a
rsync -a --delete ./ /home/me/project/
rsync -a ./ /home/me/project
dd if=/dev/zero of=/home/me/project/a
truncate -s 0 ~/project/a
touch ~/project/new
sed -i 's/a/b/' /home/me/project/a.py
sed -i -e 's/a/b/' ../../../../project/a.py
perl -pi -e 's/a/b/' /home/me/project/*.py
tar -xf a.tar -C /home/me/project
tar -cf /home/me/project/a.tar .
unzip a.zip -d /home/me/project
curl -o /home/me/project/a https://example.invalid/a
curl -sSLo ~/project/a https://example.invalid/a
wget -O ~/project/a https://example.invalid/a
patch -d /home/me/project -p1 < x.diff
find /home/me/project -name '*.py' -delete
find /home/me/project -type f -exec rm {} \;
find ~/project -name a -print0 | xargs -0 rm -f
find /home/me/project -name '*.py' | grep -v x | xargs sed -i 's/a/b/'
grep -rl a /home/me/project | xargs sed -i 's/a/b/'
echo /home/me/project | xargs rm -rf
ls -d ~/project/* | xargs -I{} rm -rf {}
find ~/project -name a | while read f; do rm "$f"; done
for f in /home/me/project/a /home/me/project/b; do rm $f; done
for d in ~/project/*; do rm -rf "$d"; done
bash -c 'rm -rf /home/me/project'
bash -lc "cd /home/me/project && rm -rf src"
sh -c "bash -c 'rm -rf ~/project'"
/bin/bash -lc 'echo x > /home/me/project/a.py'
eval "rm -rf /home/me/project"
echo "rm -rf /home/me/project" | bash
bash <<< "rm -rf /home/me/project"
true && false || rm -rf /home/me/project
if true; then rm -rf /home/me/project; fi
while true; do rm -rf /home/me/project; done
nohup rm -rf /home/me/project &
timeout 5 rm -rf /home/me/project
env -i X=1 rm -rf /home/me/project
nice -n 5 rm -rf /home/me/project
f() { rm -rf /home/me/project; }; f
trap 'rm -rf /home/me/project' EXIT
diff <(rm -rf /home/me/project) x
python3 -c "import shutil; shutil.rmtree('/home/me/project')"
python -c 'open("/home/me/project/a.py", "w").write("x")'
node -e "require('fs').rmSync('/home/me/project', {recursive: true})"
echo 'alias ls=rm' >> ~/.bashrc
echo "ssh-rsa x" >> ~/.ssh/authorized_keys
cp x ~/.config/autostart/x.desktop
rm ~/.gitconfig
echo '{}' > ~/.claude/settings.json
chmod 777 ~/.ssh
chown root /home/me/project/a
rmdir ~/project/empty
unlink ~/project/a
shred -u ~/project/a
rm -rf ${HOME:-/tmp}/project
rm -rf "$(git rev-parse --show-toplevel)/../other"
cd /home/me/project/ && echo x >> README.md
cd .. && rm -rf *
cd ../.. ; rm -rf project
(cd ~/project; npm run build > build.log)
rm -rf ${HOME}/project
rm -rf $HOME/project/.
rm -rf /home/me/project/.
rm -rf //home//me//project
rm -rf /home/me/../me/project
rm -fr /home/me/./project
set -x; T=$HOME/project; cd $T && rm -rf *
find / -name '*.py' -delete
find ~ -type f -exec shred {} +
find .. -delete
git -C $HOME/project reset --hard
git -C "$HOME"/project add -A
cd /home/me/project && git add . && git push
git -C /home/me/project switch other
git -C /home/me/project stash pop
pip install x && mv build/lib /home/me/project/lib
cp x.py /home/me/project/
cp -f x y z ~/project
cat a.py > ~/project/a.py
cat a.py | tee ~/project/a.py > /dev/null
printf 'x' | dd of=/home/me/project/a
sed -i.bak s/a/b/ ~/project/a
tee /home/me/project/a <<< hi
xargs rm -rf <<< /home/me/project
python3 -c "from pathlib import Path; Path('/home/me/project/a').write_text('x')"
python3 -c "import os; os.system('rm -rf /home/me/project')"
python3 -c 'import subprocess; subprocess.run(["rm", "-rf", "/home/me/project"])'
perl -e 'unlink "/home/me/project/a"'
perl -i -pe 's/a/b/' /home/me/project/a
ruby -e 'require "fileutils"; FileUtils.rm_rf("/home/me/project")'
node -e 'fs.writeFileSync("/home/me/project/a", "x")'
sudo bash -c 'echo x > /home/me/project/a'
sudo sh -c "rm -rf ~/project"
su me -c 'rm -rf /home/me/project'
env bash -c 'rm -rf /home/me/project'
exec rm -rf /home/me/project
coproc rm -rf /home/me/project
! rm -rf /home/me/project
{ rm -rf /home/me/project; }
case x in x) rm -rf /home/me/project;; esac
until false; do rm -rf /home/me/project; done
echo '*' > /home/me/project/.gitignore
rm -- /home/me/project/a
\rm -rf /home/me/project
"rm" "-rf" "/home/me/project"
rm -rf "/home/me/""project"
IFS=,; rm -rf /home/me/project
X=rm; $X -rf /home/me/project
X="rm -rf /home/me/project"; $X
X="rm -rf /home/me/project"; eval $X
parallel rm -rf ::: /home/me/project
chattr +i /home/me/project/a
git -C ../other commit -am x
git worktree remove -f other
git worktree move ../other ../third
git clone . /home/me/project/copy
git init /home/me/project/sub
git archive HEAD | tar -x -C /home/me/project
git show HEAD:a > /home/me/project/a
git diff > /home/me/project/x.diff
git format-patch -1 -o /home/me/project
git push origin :main
git push origin main --force
git push --delete origin main
git config --file /home/me/project/.git/config core.pager evil
git config -f ~/.gitconfig user.name x
git config set core.hookspath /tmp/x
tar xzf x.tgz -C ~/project
tar --directory=/home/me/project -xf x.tar
unzip -o x.zip -d ~/project
wget -P ~/project https://example.invalid/x
curl https://example.invalid/x > ~/project/x
curl --output ~/project/x https://example.invalid/x
echo x | tee /home/me/project/{a,b}
for i in 1 2; do echo $i >> /home/me/project/log; done
rm -rf ~/Documents ~/Pictures
rm -rf "$HOME"/.config
mv ~/.bashrc ~/.bashrc.bak
echo 'x' >> $HOME/.profile
echo x > "$FLEET_HOME/tasks/other/artifacts/result.json"
sqlite3 $FLEET_HOME/fleet.db 'delete from tasks'
sqlite3 ~/.fleet/fleet.db "update tasks set status='closed'"
""".strip("\n").splitlines()

SURE_BLOCKS = r"""
cat > "$(git rev-parse --git-path hooks)/pre-push" <<EOF
evil
EOF
--
cat > /home/me/project/a.py <<'EOF'
x
EOF
--
cat <<EOF | tee /home/me/project/a.py
x
EOF
--
bash <<'EOF'
rm -rf /home/me/project
EOF
--
cat <<'EOF' | sh
cd ~/project
rm -rf src
EOF
--
cat > x.txt <<'EOF'
harmless
EOF
rm -rf /home/me/project
--
python3 - <<'EOF'
import os
os.remove("/home/me/project/a.py")
EOF
--
apply_patch <<'EOF'
*** Begin Patch
*** Update File: /home/me/project/a.py
@@
-a
+b
*** End Patch
EOF
--
bash -c "$(cat <<'E'
rm -rf /home/me/project
E
)"
--
npm test \
  && rm -rf \
  /home/me/project
""".strip("\n").split("\n--\n")

DOUBTFUL = r"""
echo x > /etc/hosts
echo "127.0.0.1 x" | sudo tee -a /etc/hosts
cp tool /usr/local/bin/tool
rm -rf $PREFIX/lib
rm -rf "${DESTDIR}/usr"
echo x > ~/notes.txt
echo x > /data/out.txt
cd /home/me/project && npm install
make -C /home/me/project
npm --prefix ~/project install
git config user.email agent@example.invalid
git remote set-url origin https://evil.example.invalid/x
git push origin HEAD:main
git stash clear
git gc --prune=now
git config --global --add safe.directory '*'
git worktree add ../third
mkdir -p /home/me/project/new
git -C /home/me/elsewhere commit -am x
rm -f /home/me/project/.git/index.lock
rm -rf ~/$NAME
rm -rf /home/me/proj?ct
rm -rf /home/m*/project
curl -o ~/.local/bin/tool https://example.invalid/tool
""".strip("\n").splitlines()

CERTAIN = [*SURE_LINES, *SURE_BLOCKS]
